"""Runs of data in memory, with options as keyword arguments."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import assay
from assay import api
from assay.engine.execution.run import open_or_create
from assay.engine.runs import keep_given
from assay.engine.storage.run_paths import RunPaths
from assay.surfaces.python_api.run_keywords import RunKeywords
from tests.engine.run_settings import mcq_row

ROWS: list[dict[str, Any]] = [
    {"question": "What is 2+2?", "answer": "four", "topic": "math"},
    {"question": "What is 3+3?", "answer": "six", "topic": "math"},
]
ANSWERS = {row["question"]: row["answer"] for row in ROWS}


def right(prompt: str) -> str:
    return next(answer for question, answer in ANSWERS.items() if question in prompt)


async def four(prompt: str) -> str:
    await asyncio.sleep(0)
    return "four" if prompt else ""


def exact(record: assay.Case, answer: str) -> bool:
    return answer in record.references


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    return {"grader": exact, "runs_dir": tmp_path / "runs"}


def test_rows_are_run_without_a_file(options: dict[str, Any]) -> None:
    (run,) = assay.run(ROWS, model=right, **options)
    assert (run.state, run.pass_rate.value, run.counts.evaluated_records) == ("completed", 1.0, 2)
    assert [line["model_response"] for line in run] == ["four", "six"]
    assert run.verify() == []


def test_functions_and_async_functions_and_names_stand_beside_each_other(options: dict[str, Any]) -> None:
    runs = assay.run(ROWS, model=[right, four, "scripted/echo"], run_id="night", **options)
    assert [run.pass_rate.value for run in runs] == [1.0, 0.5, 0.0]
    assert runs.group == "night"
    reopened = assay.open_group("night", runs_dir=options["runs_dir"])
    assert [run.run_id for run in reopened] == [run.run_id for run in runs]
    (first, second) = runs.matrix()
    assert (first["question"], first["references"]) == ("What is 2+2?", ["four"])
    assert [result["passed"] for result in second["results"].values()] == [True, False, False]
    assert len(runs.compare().pairs) == 3


def test_checks_are_in_the_records_and_in_the_matrix(options: dict[str, Any]) -> None:
    checks = [{"type": "equals"}, {"name": "short", "type": "length", "max": 4}]
    runs = assay.run(ROWS, model=[right, four], checks=checks, runs_dir=options["runs_dir"])
    first, second = runs.matrix()
    assert [result["checks"] for result in second["results"].values()] == [
        {"equals": True, "short": True},
        {"equals": False, "short": True},
    ]
    assert first["references"] == ["four"]
    rows = list(runs[0].records())
    assert [(row["question"], row["model_response"], row["passed"]) for row in rows] == [
        ("What is 2+2?", "four", True),
        ("What is 3+3?", "six", True),
    ]


def test_a_model_may_be_a_mapping_with_its_name(options: dict[str, Any]) -> None:
    runs = assay.run(ROWS, model=[{"name": "good", "model": right}, {"name": "echo", "model": "scripted/echo"}], **options)
    assert [run.candidate for run in runs] == ["good", "echo"]


@pytest.mark.parametrize("judge", ["scripted/judge-sound", ["scripted/judge-sound"]], ids=["name", "list"])
def test_judges_are_given_like_models(tmp_path: Path, judge: Any) -> None:
    (run,) = assay.run(ROWS, model=right, judge=judge, runs_dir=tmp_path / "runs")
    assert run.counts.evaluated_records == 2


def test_it_runs_asynchronously(options: dict[str, Any]) -> None:
    async def both() -> tuple[assay.Runs, assay.Runs]:
        first, second = await asyncio.gather(
            assay.run_async(ROWS, model=right, **options), assay.run_async(pd.DataFrame(ROWS), model=four, **options)
        )
        return first, second

    first, second = asyncio.run(both())
    assert (first[0].pass_rate.value, second[0].pass_rate.value) == (1.0, 0.5)


def test_the_run_names_its_data_and_has_no_path_of_this_machine(options: dict[str, Any]) -> None:
    (run,) = assay.run(ROWS, model=right, name="arithmetic", **options)
    (dataset,) = run.manifest["plan"]["datasets"]
    assert (dataset["dataset_id"], dataset["path"], dataset["file"]) == ("arithmetic", "arithmetic.jsonl", "arithmetic.jsonl")
    assert dataset["table"]["columns"] == {"prompt": "question", "reference": "answer"}
    assert str(options["runs_dir"]) not in json.dumps(run.manifest["plan"]["datasets"])
    # The run's own copy is a dataset as any other.
    again = assay.run(Path(run.run_dir, "input_dataset.json"), model=right, **options)
    assert [line["record_sha256"] for line in again[0]] == [line["record_sha256"] for line in run]


def test_nothing_of_the_data_stays_but_the_artifacts(options: dict[str, Any]) -> None:
    (run,) = assay.run(ROWS, model=right, run_id="one", **options)
    assert not Path(options["runs_dir"], ".active", "one").exists()
    assert run.is_finished


def test_the_same_call_finds_the_run_and_other_data_are_refused(options: dict[str, Any]) -> None:
    first = assay.run(ROWS, model="scripted/echo", run_id="one", **options)
    assert assay.run(list(ROWS), model="scripted/echo", run_id="one", **options)[0].manifest == first[0].manifest
    with pytest.raises(assay.AssayError, match="other settings"):
        assay.run(ROWS[:1], model="scripted/echo", run_id="one", **options)


RESUME = """
import sys
from assay import api
result = api.resume("one", runs_dir=sys.argv[1])
print(result.state, result.counts.evaluated_records)
"""


def test_an_interrupted_run_is_resumed_by_another_process_without_the_data(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    rows = [mcq_row(name) for name in "abc"]
    (stopped,) = assay.run(rows, model="scripted/mcq-first", run_id="one", runs_dir=runs, is_stopping=lambda: True)
    assert not stopped.is_finished
    resumed = subprocess.run([sys.executable, "-c", RESUME, str(runs)], capture_output=True, text=True, check=True)
    assert resumed.stdout == "completed 3\n"


@pytest.mark.parametrize("rows", [ROWS, [mcq_row(name) for name in "abc"]], ids=["table", "contract"])
def test_a_run_that_died_before_it_read_its_records_still_has_them(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    runs = tmp_path / "runs"
    request = api.RunRequest(
        data=rows, models=("scripted/mcq-first",), judges=("scripted/judge-sound",), run_id="one", runs_dir=str(runs)
    )
    planned = api.plan_runs(request)
    folders = RunPaths(runs, "one")
    # What `start` does up to the moment in which the process is killed.
    keep_given(planned.plans[0], folders, planned.inputs)
    open_or_create(planned.plans[0], folders, at=0.0)
    resumed = subprocess.run([sys.executable, "-c", RESUME, str(runs)], capture_output=True, text=True, check=True)
    assert resumed.stdout == f"completed {len(rows)}\n"


def test_an_invalid_row_of_a_table_is_a_record_among_the_others(options: dict[str, Any]) -> None:
    (run,) = assay.run([*ROWS, {"question": "", "answer": "x"}], model=right, **options)
    assert (run.counts.evaluated_records, run.counts.invalid_records) == (2, 1)


def test_settings_of_a_run_file_hold_for_data_too(options: dict[str, Any]) -> None:
    Path("night.yaml").write_text("datasets: [gone.json]\ncandidates: [scripted/echo]\ngates: {pass_rate: 0.9}\n", encoding="utf-8")
    (run,) = assay.run(ROWS, run_file="night.yaml", **options)
    assert (run.candidate, run.gate.passed) == ("scripted/echo", False)


def test_providers_are_given_like_in_a_run_file(options: dict[str, Any]) -> None:
    with pytest.raises(assay.UsageProblem) as raised:
        assay.run(ROWS, model="mine/m", providers=[{"name": "mine", "base_url": "ftp://x"}], **options)
    assert "base_url must be an http or https address" in raised.value.message


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "source": ({"source": 5}, "a dataset cannot be an int"),
    "no records": ({"source": []}, "there are no records"),
    "unknown option": ({"limt": 5}, "unknown option 'limt'"),
    "limit": ({"limit": "x"}, "limit: limit must be an integer from 1 on, not a string"),
    "pass rate": ({"pass_rate": 7}, "pass_rate: gates.pass_rate must be a number from 0 to 1, not 7"),
    "model": ({"model": 5}, "a model is a function, and this is int"),
    "model name": ({"model": "gpt"}, "model: 'gpt' has no provider prefix"),
    "judge": ({"judge": object()}, "a model is a function, and this is object"),
    "grader": ({"grader": 5}, "a grader is a function, and this is int"),
    "frame as an option": ({"records": pd.DataFrame()}, "records cannot be a value of type DataFrame"),
    "watch": ({"watch": 5}, "watch must be a function"),
    "observe": ({"observe": "x"}, "observe must be a function"),
    "stopping": ({"is_stopping": 5}, "is_stopping must be a function"),
    "columns": ({"columns": {"promt": "x"}}, "columns: "),
    "runs_dir": ({"runs_dir": 5}, "runs_dir: run.runs_dir must be a text"),
    "redact": ({"redact": 5}, "redact: "),
    "retention": ({"retention": 5}, "retention: "),
    "policies": ({"policies": 5}, "policies: policies must be an object"),
    "no model": ({"model": None}, "no candidate is named"),
    "no source": ({"source": None}, "no dataset is named"),
    "data and files": ({"datasets": ["x.json"]}, "a dataset in memory and files are given"),
    "text": ({"source": "a\nb"}, "is not the path of a file"),
    "broken bytes": ({"source": b'{"a": '}, "the text ends"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_an_error_of_assay_that_says_what_to_do(options: dict[str, Any], name: str) -> None:
    given, message = WRONG[name]
    source = given.get("source", ROWS) if "source" in given else ROWS
    rest = {key: value for key, value in given.items() if key != "source"}
    with pytest.raises(assay.AssayError) as raised:
        assay.run(source, **{"model": right, **options, **rest})
    assert message in raised.value.message
    assert raised.value.hint
    assert "\n" not in raised.value.message


def test_an_attachment_has_no_place_in_memory(options: dict[str, Any]) -> None:
    row = {**mcq_row("a"), "attachments": [{"path": "law.txt"}]}
    with pytest.raises(assay.UsageProblem, match=r"'records' is in memory, where 'law\.txt' cannot be found next to it"):
        assay.run([row], model=right, **options)


def test_numbers_of_numpy_and_paths_are_options(options: dict[str, Any]) -> None:
    count = pd.Series([1]).to_numpy()[0]
    (run,) = assay.run(ROWS, model=right, limit=count, **options)
    assert run.counts.total_records == 1


def test_the_public_names_are_listed_for_completion() -> None:
    names = dir(assay)
    assert {"run", "run_async", "validate", "open_run", "open_group", "Run", "Runs", "AssayError", "__version__"} <= set(names)
    assert not {"import_module", "TYPE_CHECKING", "Any", "core"} & set(names)
    assert all(getattr(assay, name) is not None for name in names)


def test_every_member_of_a_request_is_a_keyword() -> None:
    own = {"data", "interface", "code", "has_keywords"}
    assert set(api.RunRequest.__struct_fields__) - own <= set(RunKeywords.__annotations__)
