"""input_dataset.json: the accepted records of a run in their own contract, which validate and run again."""

import gzip
import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from assay import api
from assay.core.contract import CONTRACTS
from assay.core.run_result import RunResult
from assay.engine.finalization.finalize import finalize
from assay.engine.storage.run_paths import RunPaths
from assay.store.published_run import open_run_folder
from assay.testing import example_dataset
from tests.commands import assay
from tests.engine.finalization.test_finalize import LongReplies
from tests.engine.run_settings import JUDGE, batch_record, mcq_row, write_batch, write_golden, write_rows

EARLIER = Path(__file__).parents[1] / "earlier_runs" / "batch"
TURNS = [
    {"turn_id": 1, "speaker": "user", "message": "Is it open?"},
    {"turn_id": 2, "speaker": "assistant", "assistant_reply": "Yes, until six.", "mood": "calm"},
    {"turn_id": 3, "speaker": "user", "message": "And tomorrow?"},
    {"turn_id": 4, "speaker": "assistant", "assistant_reply": "Yes."},
]


def run(source: Path | list[Path], run_id: str, **options: Any) -> RunResult:
    listed = source if isinstance(source, list) else [source]
    folder = listed[0].parent if listed[0].name != "input_dataset.json" else listed[0].parent.parent.parent
    options = {"models": (options.pop("model", "scripted/echo"),), "judges": (JUDGE,), **options}
    (result,) = api.run(api.RunRequest(datasets=tuple(map(str, listed)), run_id=run_id, runs_dir=str(folder / "runs"), **options))
    return result


def stored(result: RunResult) -> Path:
    return Path(result.run_dir) / "input_dataset.json"


def document(result: RunResult) -> Any:
    return json.loads(stored(result).read_bytes())


def lines(result: RunResult, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(result.run_dir) / name).read_bytes().splitlines()]


def identities(result: RunResult) -> list[tuple[str, str, str]]:
    return [(line["record_id"], line["record_sha256"], line["dataset"]) for line in lines(result, "predictions.jsonl")]


def turns(*texts: str) -> list[dict[str, Any]]:
    said = [{"speaker": "user", "message": texts[0]}, {"speaker": "assistant", "assistant_reply": texts[1]}]
    return [{"turn_id": number, **turn} for number, turn in enumerate(said, 1)]


def example(folder: Path, contract: str) -> Path:
    path = folder / f"example.{CONTRACTS[contract].formats[0]}"
    path.write_bytes(example_dataset(contract))
    return path


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
def test_the_input_of_a_run_is_valid_and_repeats_the_run(tmp_path: Path, contract: str) -> None:
    first = run(example(tmp_path, contract), "first")
    report = api.validate(stored(first))
    assert (report.contract, report.outcome, report.issues) == (contract, "accepted", ())
    second = run(stored(first), "second")
    assert identities(second) == identities(first)
    assert stored(second).read_bytes() == stored(first).read_bytes()
    third = run(stored(second), "third")
    assert (identities(third), stored(third).read_bytes()) == (identities(first), stored(first).read_bytes())


@pytest.mark.parametrize("contract", sorted(CONTRACTS))
def test_a_repeated_run_asks_what_the_first_one_asked(tmp_path: Path, contract: str) -> None:
    first = run(example(tmp_path, contract), "first")
    second = run(stored(first), "second")
    asked = [[line["request_sha256"] for line in lines(result, "attempt_logs.jsonl")] for result in (first, second)]
    assert asked[0] == asked[1]
    assert lines(second, "cases.jsonl") == lines(first, "cases.jsonl")


def test_a_batch_document_keeps_every_member_and_its_accepted_records(tmp_path: Path) -> None:
    open_members = {**batch_record("b"), "input": {"prompt": "p", "choices": ["x", 1.5]}, "tags": [], "metadata": {}}
    given = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "created_at": "2026-01-01T00:00:00Z"}
    given |= {"metadata": {"owner": "law"}, "x-origin": {"deep": [1, None]}, "records": [batch_record("a"), {}, open_members]}
    path = tmp_path / "d.json"
    path.write_text(json.dumps(given))
    assert document(run(path, "x")) == {**given, "records": [batch_record("a"), open_members]}


def test_a_golden_document_keeps_its_description_and_what_its_contract_does_not_know(tmp_path: Path) -> None:
    path = write_golden(tmp_path / "g.json")
    given = {**json.loads(path.read_text()), "description": "What must work", "owner": "x"}
    given["cases"][0] |= {"context": None, "tags": [], "note": "n"}
    path.write_text(json.dumps(given))
    assert document(run(path, "x")) == given


def test_rows_of_legal_eval_v1_are_one_on_each_line_of_a_small_document(tmp_path: Path) -> None:
    rows = [mcq_row("a", note="kept"), mcq_row("b", context="")]
    result = run(write_rows(tmp_path / "rows.jsonl", *rows), "x")
    assert document(result) == {"schema_version": "legal_eval_v1", "rows": rows}
    head, *listed, end = stored(result).read_text().splitlines()
    assert (head, end) == ('{"schema_version":"legal_eval_v1","rows":[', "]}")
    assert [json.loads(line.removesuffix(",")) for line in listed] == rows


def test_one_conversation_is_a_list_of_turns_and_several_are_a_document(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.jsonl"
    one.write_text(json.dumps(TURNS))
    two.write_text(f"{json.dumps(TURNS)}\n{json.dumps(turns('Hello?', 'Hi.'))}\n")
    assert document(run(one, "one")) == TURNS
    several = run(two, "two")
    assert document(several) == {"schema_version": "conversation_v1", "conversations": [TURNS, turns("Hello?", "Hi.")]}
    assert identities(run(stored(several), "again")) == identities(several)


def test_a_contract_of_a_plugin_is_stored_as_a_list_of_its_rows(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('def tickets(row, found):\n    return {"id": row["key"], "prompt": row["text"]}\n')
    rows = [{"key": "t-1", "text": "My bike is broken"}, {"key": "t-2", "text": "Where is my parcel?"}]
    contract = f"{tmp_path / 'own.py'}:tickets"
    first = run(write_rows(tmp_path / "rows.jsonl", *rows), "x", contract=contract)
    assert document(first) == rows
    assert identities(run(stored(first), "again", contract=contract)) == identities(first)


def test_several_datasets_are_stored_with_their_names_and_read_back(tmp_path: Path) -> None:
    batch, golden = write_batch(tmp_path / "b.json", batch_record("a")), write_golden(tmp_path / "g.json")
    talk = tmp_path / "talk.json"
    talk.write_text(json.dumps(TURNS))
    rows = write_rows(tmp_path / "rows.jsonl", mcq_row("m"), mcq_row("n"))
    first = run([batch, golden, talk, rows], "first")
    found = document(first)
    assert found["schema_version"] == "datasets_v1"
    assert [(part["name"], part["file"], part["contract"]) for part in found["datasets"]] == [
        ("b", "b.json", "batch_v1"),
        ("g", "g.json", "golden_v1"),
        ("talk", "talk.json", "conversation_v1"),
        ("rows", "rows.jsonl", "legal_eval_v1"),
    ]
    sources = api.find_sources([str(stored(first))])
    assert [(api.validate(source).contract, api.validate(source).is_valid) for source in sources] == [
        (part["contract"], True) for part in found["datasets"]
    ]
    second = run(stored(first), "second")
    assert (identities(second), stored(second).read_bytes()) == (identities(first), stored(first).read_bytes())


def test_packed_datasets_run_alone_and_with_others(tmp_path: Path) -> None:
    plain, packed = write_batch(tmp_path / "plain.json", batch_record("a")), tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(example_dataset("batch_v1")))
    assert packed.stat().st_size > 256
    assert document(run(packed, "alone")) == json.loads(example_dataset("batch_v1"))
    both = run([plain, packed], "both")
    assert [part["file"] for part in document(both)["datasets"]] == ["plain.json", "packed.json.gz"]
    again = tmp_path / "again.json.gz"
    again.write_bytes(gzip.compress(stored(both).read_bytes()))
    assert identities(run(again, "again")) == identities(both)


def test_a_problem_in_one_of_several_datasets_is_located_in_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "several.json"
    part = '{"name":"rows","file":"r.jsonl","contract":"legal_eval_v1","document":{"schema_version":"legal_eval_v1","rows":[\n'
    broken = json.dumps(mcq_row("a", prompt=3), separators=(",", ":"))
    path.write_text(f'{{"schema_version":"datasets_v1","datasets":[\n{part}{broken}\n]}}}}\n]}}\n')
    (source,) = api.find_sources([str(path)])
    (issue,) = api.validate(source).issues
    assert (issue.line, issue.column) == (3, broken.index('3,"choices"') + 1)


def test_a_record_that_is_asked_several_times_is_stored_once(tmp_path: Path) -> None:
    result = run(write_golden(tmp_path / "g.json"), "x", repeat=3)
    assert document(result) == json.loads((tmp_path / "g.json").read_text())


def test_what_a_run_selects_is_what_it_stores(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", *(mcq_row(name) for name in "abcd"))
    assert [row["id"] for row in document(run(path, "x", limit=2))["rows"]] == ["a", "b"]


@pytest.mark.parametrize(("count", "options"), [(6, {"limit": 2}), (3, {"allow_size": True}), (25, {"allow_size": True})])
def test_a_part_of_a_golden_dataset_is_taken_again(tmp_path: Path, count: int, options: dict[str, Any]) -> None:
    golden = write_golden(tmp_path / "g.json", count)
    first = run(golden, "first", **options)
    assert api.validate(stored(first)).is_valid
    second = run(stored(first), "second")
    assert (identities(second), stored(second).read_bytes()) == (identities(first), stored(first).read_bytes())
    both = run([golden, write_batch(tmp_path / "b.json", batch_record("a"))], "both", **options)
    assert identities(run(stored(both), "again")) == identities(both)


def test_nulls_that_a_run_took_for_absent_are_taken_again(tmp_path: Path) -> None:
    rows = [mcq_row("a", rubric=None), mcq_row("b")]
    first = run(write_rows(tmp_path / "rows.jsonl", *rows), "first", null_as_absent=True)
    assert api.validate(stored(first)).issues == ()
    assert identities(run(stored(first), "second")) == identities(first)


def test_the_input_is_redacted_and_still_valid(tmp_path: Path) -> None:
    secret = "ann.smith@example.org"
    row = mcq_row(f"q {secret}", prompt=f"Write to {secret}", metadata={"by": secret}, extra=[secret])
    result = run(write_rows(tmp_path / "rows.jsonl", row), "x")
    assert secret not in stored(result).read_text()
    (kept,) = document(result)["rows"]
    assert (kept["prompt"], kept["extra"]) == ("Write to [REDACTED:email]", ["[REDACTED:email]"])
    assert kept["id"] == lines(result, "predictions.jsonl")[0]["record_id"]
    assert api.validate(stored(result)).is_valid


def test_ids_that_are_redacted_keep_the_form_that_their_contract_asks_for(tmp_path: Path) -> None:
    golden = json.loads(write_golden(tmp_path / "g.json").read_text())
    golden["cases"][0]["id"] = "4111-1111-1111-1111"
    (tmp_path / "g.json").write_text(json.dumps(golden))
    result = run(tmp_path / "g.json", "x")
    assert "4111-1111" not in stored(result).read_text()
    assert api.validate(stored(result)).is_valid


MAIL = "a@b.co"


def test_redacted_ids_of_choices_and_criteria_stay_apart(tmp_path: Path) -> None:
    names = ["ann@example.org", "bob@example.org"]
    choices = [{"id": name, "text": "Yes"} for name in names]
    rubric = [{"id": name, "title": f"Says that it is {name[:3]}"} for name in names]
    asked = {"schema_version": "legal_eval_v1", "id": "r", "dataset": "d", "task_type": "rubric_qa", "prompt": "Who?"}
    rows = [mcq_row("m", choices=choices, correct_choice_ids=names[1:]), {**asked, "rubric": rubric}]
    result = run(write_rows(tmp_path / "rows.jsonl", *rows), "x")
    mcq, graded = document(result)["rows"]
    assert [choice["id"] for choice in mcq["choices"]] == ["[REDACTED:email]#1", "[REDACTED:email]#2"]
    assert mcq["correct_choice_ids"] == ["[REDACTED:email]#2"]
    assert [criterion["id"] for criterion in graded["rubric"]] == ["[REDACTED:email]#1", "[REDACTED:email]#2"]
    assert api.validate(stored(result)).count("error") == 0


def test_redaction_breaks_no_limit_that_a_golden_case_kept(tmp_path: Path) -> None:
    golden = json.loads(write_golden(tmp_path / "g.json").read_text())
    golden["cases"][0]["user_prompt"] = f"{MAIL} {'x ' * 3996}"[:8000]
    golden["cases"][1]["user_prompt"] = f"Write to {MAIL}"
    (tmp_path / "g.json").write_text(json.dumps(golden))
    result = run(tmp_path / "g.json", "x")
    first, second, *_ = document(result)["cases"]
    assert first["user_prompt"].startswith("[R] x ")
    assert second["user_prompt"] == "Write to [REDACTED:email]"
    assert api.validate(stored(result)).is_valid


def test_redaction_breaks_no_limit_that_a_batch_kept(tmp_path: Path) -> None:
    full = {**batch_record(f"{MAIL} {'i' * 121}"), "tags": [f"{MAIL} {'t' * 57}"], "metadata": {"by": f"{MAIL} {'m' * 8170}"}}
    path = write_batch(tmp_path / "b.json", full, {**full, "record_id": f"{MAIL} {'j' * 121}"})
    path.write_text(json.dumps({**json.loads(path.read_text()), "dataset_version": f"{MAIL} {'v' * 57}"}))
    assert api.validate(path).is_valid
    result = run(path, "x")
    assert MAIL not in stored(result).read_text()
    report = api.validate(stored(result))
    assert (report.issues, len({case.id for case in report.cases})) == ((), 2)


def test_redactions_are_counted_once(tmp_path: Path) -> None:
    row = mcq_row("q", prompt="Write to ann.smith@example.org")
    result = run(write_rows(tmp_path / "rows.jsonl", row), "x", model="scripted/say-A")
    assert open_run_folder(Path(result.run_dir)).manifest.redactions == {"email": 1}


def written(folder: Path, text: str) -> Path:
    path = folder / "d.json"
    path.write_bytes(text.encode())
    return path


ANSWER_A = ("--model", "scripted/say-A", "--quiet")


def run_with_attachment(text: str = "the agreement") -> None:
    Path("data").mkdir()
    Path("data/a.txt").write_text(text)
    write_rows(Path("data/rows.jsonl"), mcq_row("q", attachments=[{"path": "a.txt"}]))
    assert assay("run", "data/rows.jsonl", *ANSWER_A, "--run-id", "first").exit_code == 0


def attachments_of(run_id: str) -> Any:
    return json.loads(Path(f"runs/{run_id}/cases.jsonl").read_text())["record"]["attachments"]


def test_the_stored_input_of_a_run_with_attachments_repeats_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a repetition can be repeated."""
    monkeypatch.chdir(tmp_path)
    run_with_attachment()
    for earlier, later in pairwise(("first", "second", "third")):
        again = assay("run", f"runs/{earlier}/input_dataset.json", *ANSWER_A, "--run-id", later)
        assert again.exit_code == 0, again.stderr
        assert attachments_of(later) == attachments_of("first")


@pytest.mark.parametrize("change", [lambda path: path.unlink(), lambda path: path.write_text("another text")])
def test_an_attachment_that_changed_since_the_run_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_with_attachment()
    change(Path("data/a.txt"))
    refused = assay("run", "runs/first/input_dataset.json", *ANSWER_A)
    assert refused.exit_code == 2
    assert "assay export runs/first --as dataset -o FOLDER/FILE.jsonl" in refused.stderr
    Path("data/a.txt").write_text("the agreement")
    assert assay("export", "runs/first", "--as", "dataset", "-o", "data/again.jsonl").exit_code == 0
    assert assay("run", "data/again.jsonl", *ANSWER_A, "--run-id", "second").exit_code == 0
    assert attachments_of("second") == attachments_of("first")


def test_a_run_folder_that_was_sent_gets_nothing_read_that_its_sender_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_with_attachment()
    Path("private").mkdir()
    Path("private/a.txt").write_text("a secret")
    manifest = Path("runs/first/run_manifest.json")
    manifest.chmod(0o600)
    manifest.write_text(manifest.read_text().replace(f"{tmp_path}/data/", f"{tmp_path}/private/"))
    assert assay("run", "runs/first/input_dataset.json", *ANSWER_A).exit_code == 2


def test_a_run_without_rows_in_its_ledger_names_its_input_by_hash(tmp_path: Path) -> None:
    """As a run that an earlier version has begun and this one finishes."""
    folders = RunPaths(tmp_path, "r")
    finalize(LongReplies(), folders)
    found = json.loads((folders.sealed / "input_dataset.json").read_bytes())
    assert found["schema_version"] == "reference_v1"
    assert set(found) == {"schema_version", "datasets", "runs"}
    assert len(list(open_run_folder(folders.sealed).records())) == 32


def test_a_comparison_names_the_runs_that_it_compares(tmp_path: Path) -> None:
    source = write_batch(tmp_path / "b.json", batch_record("a"))
    runs = [run(source, name, model=f"scripted/say-{name}") for name in ("x", "y")]
    ranked = api.rank(api.RankRequest(runs=("x", "y"), judges=(JUDGE,), runs_dir=str(tmp_path / "runs")))
    found = document(ranked)
    hashes = [open_run_folder(Path(result.run_dir)).manifest.own_hash for result in runs]
    assert found == {
        "schema_version": "reference_v1",
        "datasets": [],
        "runs": [{"run_id": name, "manifest_sha256": sha256} for name, sha256 in zip(("x", "y"), hashes, strict=True)],
    }


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A run that version 1 of the artifacts was written for, as it was sealed then."""
    shutil.copytree(EARLIER, tmp_path / "runs" / "earlier")
    return tmp_path / "runs"


def test_a_run_of_an_earlier_version_still_opens(earlier: Path) -> None:
    assert api.verify("earlier", runs_dir=earlier) == []
    assert api.replay("earlier", runs_dir=earlier) == []
    found = api.open_run("earlier", runs_dir=earlier)
    assert [case.prompt for _, case in found.pairs()] == [f"What is {n} + {n}?" for n in range(1, 4)]
    assert found.record("q-2").input.references == ("4",)
    index = api.index_run(earlier / "earlier")
    assert found.record_of(index.at_position(2)).input.prompt == "What is 3 + 3?"


def test_a_run_of_an_earlier_version_is_compared_rescored_and_purged(earlier: Path) -> None:
    api.rescore("earlier", profile="weighted_mean", runs_dir=earlier, run_id="rescored")
    assert api.verify("rescored", runs_dir=earlier) == []
    assert [case.id for _, case in api.open_run("rescored", runs_dir=earlier).pairs()] == ["q-1", "q-2", "q-3"]
    assert api.compare("earlier", "rescored", runs_dir=earlier).n == 3
