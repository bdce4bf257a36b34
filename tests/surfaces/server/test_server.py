"""What the service answers and stores says nothing about where on its machine it keeps things."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assay import api
from assay.surfaces.server.errors import without_folders
from assay.testing import example_dataset
from tests.engine.run_settings import mcq_row
from tests.surfaces.server.serving import Serving

EXAMPLES = Path(__file__).parents[3] / "examples"
LINES = {"content-type": "application/x-ndjson"}
RUN_FILE = """
candidates: [replay/replies.jsonl]
judges: [scripted/judge-5]
cache: {folder: cache}
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("secret-folder")
    shutil.copy(EXAMPLES / "recordings" / "demo.jsonl", folder / "replies.jsonl")
    with Serving(folder, run_file=RUN_FILE) as serving:
        yield serving


def submitted(serving: Serving, body: bytes, query: str, headers: dict[str, str] | None = None) -> str:
    answer = serving.ask("POST", f"/v1/runs{query}", body, headers or {"content-type": "application/json"})
    assert answer.status == 202, answer.body
    return str(serving.ended(answer.json["run_id"])["run_id"])


def leaks(serving: Serving, text: bytes) -> list[str]:
    """The lines of a text that say where the server keeps things."""
    hidden = (str(serving.folder).encode(), b".active", b".server", b"/upload/")
    return [line.decode(errors="replace")[:300] for line in text.splitlines() if any(word in line for word in hidden)]


@pytest.fixture(scope="module")
def runs(serving: Serving) -> list[str]:
    batch = example_dataset("batch_v1")
    broken = json.loads(batch)
    broken["records"][1]["input"] = {}
    attached = json.dumps(mcq_row("q", attachments=[{"path": "a.txt"}])).encode()
    return [
        submitted(serving, batch, "?model=scripted/say-4&contract=auto"),
        submitted(serving, json.dumps(broken).encode(), "?model=scripted/say-4&name=mine"),
        submitted(serving, example_dataset("golden_v1"), "?model=scripted/echo&contract=auto"),
        submitted(serving, attached, "?model=scripted/say-A&on_invalid=skip&contract=auto", LINES),
        submitted(serving, batch, ""),
    ]


def test_no_artifact_of_a_submitted_run_names_a_folder_of_the_server(serving: Serving, runs: list[str]) -> None:
    for run_id in runs:
        for path in sorted((serving.runs_dir / run_id).iterdir()):
            assert leaks(serving, path.read_bytes()) == [], f"{run_id}/{path.name}"


def test_no_answer_about_a_run_names_a_folder_of_the_server(serving: Serving, runs: list[str]) -> None:
    for run_id in runs:
        inner = ["", "/artifacts", "/errors", "/failures", "/records", "/records/0", "/events", "/distribution"]
        exports = [f"/export?format={name}" for name in ("json", "jsonl", "csv", "responses", "dataset")]
        artifacts = [f"/artifacts/{path.name}" for path in (serving.runs_dir / run_id).iterdir()]
        pages = ["", "/records", "/records/0", "/judge"]
        paths = [f"/v1/runs/{run_id}{part}" for part in (*inner, *exports, *artifacts)]
        for path in (*paths, *(f"/runs/{run_id}{part}" for part in pages)):
            assert leaks(serving, serving.ask("GET", path).body) == [], path
    for path in ("/v1/runs", "/runs", "/", "/v1/audit", "/metrics", "/judges", "/openapi.json", "/readyz"):
        assert leaks(serving, serving.ask("GET", path).body) == [], path
    both = f"before={runs[0]}&after={runs[4]}"
    assert leaks(serving, serving.ask("GET", f"/v1/compare?{both}").body) == []
    assert leaks(serving, serving.ask("GET", f"/compare?{both}").body) == []


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("?model=scripted/nobody", example_dataset("batch_v1")),
        ("?model=nobody", example_dataset("batch_v1")),
        ("?judge=x", example_dataset("golden_v1")),
        ("?contract=golden_v1", b'{"version": "1"}'),
        ("?contract=legal_eval_v1", json.dumps(mcq_row("q", prompt=3)).encode()),
        ("?contract=legal_eval_v1", json.dumps(mcq_row("q", attachments=[{"path": "gone.txt"}])).encode()),
        ("?contract=legal_eval_v1", f"{json.dumps(mcq_row('q'))}\n{json.dumps(mcq_row('q'))}".encode()),
        ("?contract=auto", b'[{"turn_id": 1}]'),
        ("?contract=auto", b"nonsense"),
        ("", b""),
        ("?slices=x&profile=prbench", example_dataset("batch_v1")),
        ("?name=" + quote("../../x"), example_dataset("batch_v1")),
        ("?contract=auto", b'{"schema_version":"datasets_v1","datasets":[{"name":"a"}]}'),
        ("?contract=auto", b'{"schema_version":"legal_eval_v1","rows":[{]}'),
    ],
)
def test_no_refusal_names_a_folder_of_the_server(serving: Serving, query: str, body: bytes) -> None:
    for path in ("/v1/runs", "/v1/validate"):
        answer = serving.ask("POST", f"{path}{query}", body, {"content-type": "application/json"})
        assert leaks(serving, answer.body) == [], (path, answer.body)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("/v1/runs/run_1/artifacts lists them", "/v1/runs/run_1/artifacts lists them"),
        ("http://127.0.0.1/v1/runs/run_1 has it", "http://127.0.0.1/v1/runs/run_1 has it"),
        ("cannot write 'runs/run_1/predictions.jsonl'", "cannot write 'run_1/predictions.jsonl'"),
        ("cannot write /srv/assay/runs/run_1", "cannot write run_1"),
        ("sqlite:///srv/assay/runs/run_1", "sqlite://run_1"),
        ("the folder /srv/assay/runs is full", "the folder runs is full"),
    ],
)
def test_a_relative_folder_of_runs_leaves_addresses_as_they_are(message: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/srv/assay") / path)
    monkeypatch.setattr(Path, "resolve", lambda path: Path("/srv/assay") / path)
    assert without_folders(message, Path("runs")) == shown


def test_a_stored_input_can_be_submitted_again(serving: Serving) -> None:
    rows = "".join(json.dumps(mcq_row(name)) + "\n" for name in "ab").encode()
    first = submitted(serving, rows, "?model=scripted/say-A&contract=auto", LINES)
    kept = serving.ask("GET", f"/v1/runs/{first}/artifacts/input_dataset.json").body
    for query in ("?model=scripted/say-A&contract=auto", "?model=scripted/say-A&contract=legal_eval_v1"):
        again = submitted(serving, kept, query)
        assert serving.ask("GET", f"/v1/runs/{again}/artifacts/input_dataset.json").body == kept


def test_several_datasets_in_one_document_can_be_submitted(serving: Serving) -> None:
    def part(name: str, contract: str, document: Any) -> dict[str, Any]:
        return {"name": name, "file": f"{name}.json", "contract": contract, "document": document}

    batch, golden = json.loads(example_dataset("batch_v1")), json.loads(example_dataset("golden_v1"))
    for number, record in enumerate(batch["records"]):
        record["record_id"] = f"b-{number}"
    batch["records"][0]["input"] = {}
    parts = [part("one", "batch_v1", batch), part("two", "golden_v1", golden)]
    document = json.dumps({"schema_version": "datasets_v1", "datasets": parts}).encode()
    checked = serving.ask("POST", "/v1/validate?contract=auto", document, {"content-type": "application/json"}).json
    total = len(batch["records"]) + len(golden["cases"])
    assert checked["summary"] == {"total_records": total, "accepted_records": total - 1, "rejected_records": 1}
    run_id = submitted(serving, document, "?model=scripted/say-4&on_invalid=skip&contract=auto")
    stored = serving.ask("GET", f"/v1/runs/{run_id}/artifacts/input_dataset.json").json
    assert [entry["name"] for entry in stored["datasets"]] == ["one", "two"]


def test_what_a_server_writes_of_its_own_datasets_is_their_names(serving: Serving, runs: list[str]) -> None:
    plan = json.loads((serving.runs_dir / runs[1] / "run_manifest.json").read_text())["plan"]
    (dataset,) = plan["datasets"]
    assert (dataset["path"], dataset["file"]) == ("mine.json", "mine.json")


def test_a_run_in_a_folder_of_ones_own_still_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.json").write_bytes(example_dataset("batch_v1"))
    (result,) = api.run("b.json", model="scripted/echo", judge="scripted/judge-5", run_id="x", runs_dir="runs")
    plan = json.loads((Path(result.run_dir) / "run_manifest.json").read_text())["plan"]
    assert plan["datasets"][0]["path"] == str(tmp_path / "b.json")
