"""When the replies of a record come to the disk: what was paid for before anything else is asked, all else with the outcome."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.engine.execution.run import evaluate, open_or_create, prepare
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.planning.request import RunRequest
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import Claim, CommitEntry, Ledger
from assay.testing import StubProvider
from tests.engine.run_settings import planned, write_golden, write_rows

RECORDS = 20
WHOLE = ("candidate", "judge", "outcome")


class Noting:
    """A ledger that notes what each of its appends has brought for each record."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.appends: list[list[tuple[str, ...]]] = []

    def append(self, claim: Claim, entries: Sequence[CommitEntry]) -> bool:
        """See Ledger."""
        self.appends.append([_parts(entry) for entry in entries])
        return self._ledger.append(claim, entries)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


def _parts(entry: CommitEntry) -> tuple[str, ...]:
    return (*(attempt.stage for attempt in entry.attempts), *(["outcome"] if entry.outcome else []))


def appends_of(folder: Path, environ: dict[str, str] | None = None, **settings: Any) -> list[list[tuple[str, ...]]]:
    """What is appended by a run over golden cases, with four calls in flight."""
    dataset = str(write_golden(folder / "golden.json", RECORDS))
    request = RunRequest(datasets=(dataset,), concurrency=4, runs_dir=str(folder / "runs"), **settings)
    (plan,) = planned(request, **(environ or {})).plans
    folders = RunPaths(folder / "runs", plan.run_id)
    open_or_create(plan, folders, at=0.0)
    around = RunEnvironment(environ=environ or {})
    prepare(folders, around)
    noting = Noting(folders.open_ledger())
    assert evaluate(noting, plan, around)
    noting.close()
    return noting.appends


def test_models_that_say_the_same_again_for_nothing_are_kept_with_the_outcome_and_many_records_together(tmp_path: Path) -> None:
    assert appends_of(tmp_path, models=("scripted/echo",), judges=("scripted/judge-5",)) == [[WHOLE] * RECORDS]


def test_a_panel_of_them_too(tmp_path: Path) -> None:
    judges = ("scripted/judge-5", "scripted/judge-4", "scripted/judge-any")
    (whole, *others) = appends_of(tmp_path, models=("scripted/echo",), judges=judges)
    assert (set(whole), others) == ({("candidate", "judge", "judge", "judge", "outcome")}, [])


def test_an_answer_that_was_paid_for_is_on_the_disk_before_a_judge_is_asked(tmp_path: Path) -> None:
    with StubProvider("Four.") as provider:
        environ = {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "none"}
        appends = appends_of(tmp_path, environ, models=("openai/small",), judges=("scripted/judge-5",))
    assert {part for append in appends for part in append} == {("candidate",), ("judge", "outcome")}
    assert max(append.count(("candidate",)) for append in appends) <= 4


def test_a_given_answer_is_kept_with_the_verdict_on_it(tmp_path: Path) -> None:
    rows = [{"example_id": f"case-{n}", "candidate_name": "people", "response_text": str(2 * n)} for n in range(RECORDS)]
    responses = str(write_rows(tmp_path / "answers.jsonl", *rows))
    appends = appends_of(tmp_path, responses=responses, judges=("scripted/judge-5",))
    assert {part for append in appends for part in append} == {WHOLE}
