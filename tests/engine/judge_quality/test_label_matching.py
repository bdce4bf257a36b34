"""Labels that people give while they look at records: added, never changed, and what calibration takes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import StoreUnavailable, UsageProblem
from assay.core.secrets import RedactRule
from tests.engine.graded_runs import answering, judged, open_question


@pytest.fixture
def run(tmp_path: Path) -> api.RunReader:
    rows = [open_question(f"q-{number}") for number in range(4)]
    judged(tmp_path, "one", rows, answering(rows, 1))
    return api.open_run("one", runs_dir=tmp_path / "runs")


def opinion(rater: str, *, passed: bool | None = None, score: float | None = None, note: str = "") -> api.LabelInput:
    return api.LabelInput(rater=rater, passed=passed, score=score, note=note)


def book(run: api.RunReader) -> Path:
    return run.folders.runs_dir / ".labels" / "one.jsonl"


def test_last_word_of_each_person_counts_and_every_word_is_kept(run: api.RunReader) -> None:
    for rater, passed in (("ann", True), ("bo", True), ("ann", False)):
        api.keep_label(run, 2, opinion(rater, passed=passed))
    assert [(label.rater, label.record_id, label.passed) for label in api.kept_labels(run)] == [
        ("bo", "q-2", True),
        ("ann", "q-2", False),
    ]
    assert len(book(run).read_bytes().splitlines()) == 3


def test_label_without_a_verdict_takes_back_what_was_said(run: api.RunReader) -> None:
    api.keep_label(run, 2, opinion("ann", passed=True))
    api.keep_label(run, 2, opinion("ann"))
    assert api.kept_labels(run) == ()
    with pytest.raises(UsageProblem, match="has no labels yet"):
        api.calibrate("one", runs_dir=run.folders.runs_dir)


def test_labels_are_tied_to_their_answers_and_say_how_the_judge_does(run: api.RunReader) -> None:
    for index in range(4):
        api.keep_label(run, index, opinion("ann", passed=index < 3))
    found = api.calibrate("one", runs_dir=run.folders.runs_dir)
    assert (found.n_labels, found.agreement.value) == (4, 0.5)
    assert all(label.answer_sha256.startswith("sha256:") for label in api.kept_labels(run))


def test_labels_leave_the_artifacts_as_they_are(run: api.RunReader) -> None:
    api.keep_label(run, 0, opinion("ann", passed=True))
    assert api.verify("one", runs_dir=run.folders.runs_dir) == []


def test_custom_rules_of_a_run_hold_for_the_labels_on_it(tmp_path: Path) -> None:
    rows = [open_question("q-0")]
    judged(tmp_path, "one", rows, answering(rows), redact=(RedactRule(name="employee", pattern=r"EMP-\d+"),))
    run = api.open_run("one", runs_dir=tmp_path / "runs")
    kept = api.keep_label(run, 0, opinion("EMP-17", passed=True, note="as EMP-4711 says"))
    assert (kept.rater, kept.note) == ("[REDACTED:employee]", "as [REDACTED:employee] says")
    assert b"EMP-" not in book(run).read_bytes()


def test_labels_of_many_at_once_are_all_kept(run: api.RunReader) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: api.keep_label(run, number % 4, opinion(f"rater {number}", passed=True)), range(40)))
    assert len(api.kept_labels(run)) == 40


def test_line_that_a_crash_cut_off_is_no_label(run: api.RunReader) -> None:
    api.keep_label(run, 0, opinion("ann", passed=True))
    with book(run).open("ab") as file:
        file.write(b'{"record_id": "q-')
    api.keep_label(run, 1, opinion("ann", passed=True))
    assert [label.record_id for label in api.kept_labels(run)] == ["q-0", "q-1"]


def test_line_that_is_no_label_is_told(run: api.RunReader) -> None:
    api.keep_label(run, 0, opinion("ann", passed=True))
    with book(run).open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(StoreUnavailable, match="line 2"):
        api.kept_labels(run)


def test_label_that_calibration_could_not_use_is_refused(run: api.RunReader) -> None:
    with pytest.raises(UsageProblem, match="not on the run's scale"):
        api.keep_label(run, 0, opinion("ann", score=7))
    with pytest.raises(UsageProblem, match="characters"):
        api.keep_label(run, 0, opinion("ann", passed=True, note="x" * 5_000))
    assert not book(run).exists()


def test_note_is_redacted_before_it_is_kept(run: api.RunReader) -> None:
    api.keep_label(run, 0, opinion("ann", passed=True, note="The card 4111 1111 1111 1111 is in the answer."))
    assert b"4111" not in book(run).read_bytes()
