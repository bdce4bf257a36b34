"""Runs with code of others that go on in another process, or in this one with the code given again."""

import functools
import json
import operator
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.core.settings import ModelParameters
from assay.engine.execution.run import open_or_create
from assay.engine.storage.run_paths import folders_of
from tests.plugins.datasets import predictions, run_words, words
from tests.plugins.functions import is_reference, last_word

ROOT = Path(__file__).parents[2]
GRADER = "def grade(record, answer):\n    return {score}\n"


def begun(folder: Path, **options: Any) -> str:
    """The id of a run that was planned and not begun."""
    plan = api.plan_runs(api.RunRequest(datasets=(str(words(folder)),), runs_dir=str(folder / "runs"), **options)).plans[0]
    open_or_create(plan, folders_of(folder / "runs", plan.run_id), at=time.time())
    return plan.run_id


def mine(folder: Path, name: str, score: float = 0.5) -> str:
    """A reference to a grader in a file of its own."""
    (folder / f"{name}.py").write_text(GRADER.format(score=score), encoding="utf-8")
    return f"{folder / name}.py:grade"


def test_functions_of_modules_are_found_again(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=is_reference)
    result = api.resume(run_id, runs_dir=tmp_path / "runs")
    assert (result.state, result.metrics["pass_rate"]) == ("completed", 1)


def test_code_in_a_file_is_found_again_by_another_process(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=("scripted/echo",), grader=mine(tmp_path, "again"))
    command = [sys.executable, "-m", "assay", "resume", run_id, "--runs-dir", str(tmp_path / "runs"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["metrics"]["score_mean"] == 0.5


def test_code_that_has_changed_is_refused(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=("scripted/echo",), grader=mine(tmp_path, "changing"))
    mine(tmp_path, "changing", 0.9)
    with pytest.raises(UsageProblem, match=r"changing.py:grade' has changed since the run was planned"):
        api.resume(run_id, runs_dir=tmp_path / "runs")


def test_code_that_is_gone_is_named(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=("scripted/echo",), grader=mine(tmp_path, "going"))
    (tmp_path / "going.py").unlink()
    with pytest.raises(UsageProblem, match=r"going.py"):
        api.resume(run_id, runs_dir=tmp_path / "runs")


def test_a_lambda_must_be_given_again(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=lambda *_: True)
    with pytest.raises(UsageProblem, match="was given in Python") as caught:
        api.resume(run_id, runs_dir=tmp_path / "runs")
    assert "assay.run" in caught.value.hint


def test_a_lambda_that_is_given_again_goes_on(tmp_path: Path) -> None:
    def grade(_record: assay.Case, _answer: str) -> bool:
        return True

    run_id = begun(tmp_path, models=(last_word,), grader=grade)
    result = run_words(tmp_path, run_id=run_id, model=last_word, grader=grade)
    assert [line["passed"] for line in predictions(result)] == [True, True, True]


def test_another_function_under_the_same_run_id_is_refused(tmp_path: Path) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=lambda *_: True)
    with pytest.raises(UsageProblem, match=r"other settings \(plugins\)"):
        run_words(tmp_path, run_id=run_id, model=last_word, grader=lambda *_: 0.25)


class Levelled:
    """A grader with a state."""

    def __init__(self, level: Any) -> None:
        self.level = level

    def __call__(self, _record: assay.Case, _answer: str) -> float:
        return float(self.level)

    def grade(self, _record: assay.Case, _answer: str) -> float:
        """The same as a method."""
        return float(self.level)


class Worth:
    """What cannot be compared: nobody sees what it holds."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __float__(self) -> float:
        return 0.5


def at_level(_record: assay.Case, _answer: str, *, level: Any) -> float:
    return float(level)


def closed_over(level: Any) -> Any:
    def grade(_record: assay.Case, _answer: str) -> float:
        return float(level)

    return grade


def defaulted(level: Any) -> Any:
    def grade(_record: assay.Case, _answer: str, level: Any = level) -> float:
        return float(level)

    return grade


def first_of(*given: Any) -> Any:
    return given[0]


HOLDERS = {
    "partial": lambda level: functools.partial(at_level, level=level),
    "positional": lambda level: functools.partial(operator.call, first_of, level),
    "object": Levelled,
    "method": lambda level: Levelled(level).grade,
    "closure": closed_over,
    "defaults": defaulted,
    "nested": lambda level: closed_over(closed_over([{"level": Levelled(level)}])),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_the_same_code_that_holds_something_else_is_another_grader(tmp_path: Path, holder: str) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=HOLDERS[holder](0.1))
    with pytest.raises(UsageProblem, match=r"other settings \(plugins\)"):
        run_words(tmp_path, run_id=run_id, model=last_word, grader=HOLDERS[holder](0.9))


@pytest.mark.parametrize("holder", ["partial", "object", "method", "closure", "defaults"])
def test_code_that_is_made_again_and_holds_the_same_goes_on(tmp_path: Path, holder: str) -> None:
    run_id = begun(tmp_path, models=(last_word,), grader=HOLDERS[holder](0.9))
    result = run_words(tmp_path, run_id=run_id, model=last_word, grader=HOLDERS[holder](0.9))
    assert [line["score"] for line in predictions(result)] == [0.9, 0.9, 0.9]


def test_code_that_holds_what_cannot_be_compared_goes_on_only_as_itself(tmp_path: Path) -> None:
    worth = Worth()
    run_id = begun(tmp_path, models=(last_word,), grader=closed_over(worth))
    with pytest.raises(UsageProblem, match=r"cannot be compared with the code that the run started with \(level: a Worth\)"):
        run_words(tmp_path, run_id=run_id, model=last_word, grader=closed_over(Worth()))
    result = run_words(tmp_path, run_id=run_id, model=last_word, grader=closed_over(worth))
    assert [line["score"] for line in predictions(result)] == [0.5, 0.5, 0.5]


def test_the_plan_says_that_it_cannot_tell(tmp_path: Path) -> None:
    request = api.RunRequest(datasets=(str(words(tmp_path)),), models=(last_word,), grader=closed_over(Worth()))
    assert "only this process can resume the run" in api.plan_runs(request).notes[0]


def test_a_version_of_its_own_stands_for_what_cannot_be_compared(tmp_path: Path) -> None:
    graders = [Levelled(Worth()), Levelled(Worth())]
    for grader in graders:
        grader.version = "1"  # type: ignore[attr-defined]  # what an object says of itself
    run_id = begun(tmp_path, models=(last_word,), grader=graders[0])
    assert run_words(tmp_path, run_id=run_id, model=last_word, grader=graders[1]).state == "completed"


def test_code_without_a_source_is_not_taken_for_unchanged(tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    for score in (0.1, 0.9):
        exec(GRADER.format(score=score), made)
        made[str(score)] = made["grade"]
    run_id = begun(tmp_path, models=(last_word,), grader=made["0.1"])
    with pytest.raises(UsageProblem, match=r"cannot be compared .* \(its source\)"):
        run_words(tmp_path, run_id=run_id, model=last_word, grader=made["0.9"])


def test_code_from_exec_does_not_have_the_source_of_the_program_around_it() -> None:
    program = "from assay.core.plugin_source import source_of_object; exec('def grade(): return 1'); print(source_of_object(grade))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "sha256=''" in found
    assert "unknown=('its source',)" in found


def test_a_file_that_only_sets_the_level_of_another_ones_grader_is_part_of_the_code(tmp_path: Path) -> None:
    named = (
        "import functools\nfrom tests.plugins.test_resuming import at_level\ngrade = functools.partial(at_level, level={level})\n"
    )
    (tmp_path / "level.py").write_text(named.format(level=0.1), encoding="utf-8")
    run_id = begun(tmp_path, models=("scripted/echo",), grader=f"{tmp_path / 'level.py'}:grade")
    (tmp_path / "level.py").write_text(named.format(level=0.9), encoding="utf-8")
    with pytest.raises(UsageProblem, match="has changed since the run was planned"):
        api.resume(run_id, runs_dir=tmp_path / "runs")


SCRIPT = """
import sys
from tests.plugins.test_resuming import begun
from tests.plugins.functions import last_word
from pathlib import Path
LEVEL = float(sys.argv[1])
def below(): return LEVEL
def grade(record, answer): return below()
folder = Path(sys.argv[2])
begun(folder, models=(last_word,), grader=grade, run_id="r")
"""


@pytest.mark.parametrize(("level", "code"), [("0.1", 0), ("0.9", 1)])
def test_constants_of_a_script_are_part_of_its_functions_and_another_process_tells(tmp_path: Path, level: str, code: int) -> None:
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    line = [sys.executable, str(tmp_path / "script.py")]
    root = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))}
    subprocess.run([*line, "0.1", str(tmp_path)], check=True, capture_output=True, env=root)
    again = subprocess.run([*line, level, str(tmp_path)], check=False, capture_output=True, text=True, env=root)
    assert (again.returncode, "other settings (plugins)" in again.stderr) == (code, bool(code))


def test_failed_records_are_repeated_with_the_same_code(tmp_path: Path) -> None:
    failing = run_words(tmp_path, model="scripted/fail-refused", grader=is_reference)
    retried = api.retry(failing.run_id, runs_dir=tmp_path / "runs")
    assert retried.counts.total_records == 3
    assert assay.open_run(retried.run_dir).manifest["plan"]["plugins"][0]["name"] == "tests.plugins.functions:is_reference"


def test_a_run_that_still_states_parameters_of_a_function_goes_on(tmp_path: Path) -> None:
    folders = folders_of(tmp_path / "runs", "x")
    request = api.RunRequest(
        datasets=(str(words(tmp_path)),), runs_dir=str(tmp_path / "runs"), run_id="x", models=(last_word,), grader=is_reference
    )
    plan = api.plan_runs(request).plans[0]
    stated = msgspec.structs.replace(plan.candidate, parameters=ModelParameters(max_tokens=4096))
    open_or_create(msgspec.structs.replace(plan, candidate=stated), folders, at=time.time())
    (result,) = api.run(request)
    assert result.state == "completed"
