"""Sealing: how much of a run is in memory while its artifacts are written."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec

from assay.core.case import Case
from assay.core.model_call import Reply
from assay.core.outcome import Attempt, Grade, GradedOutcome
from assay.engine.finalization.finalize import finalize
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import FinishedRecord, RecordRow, RunRow
from tests.models.asking import plan_of, provider_of

MEGABYTE = 1 << 20
RECORDS = 32


class LongReplies:
    """What a ledger would tell of a run over records whose answers have a megabyte each."""

    def run(self) -> RunRow:
        golden = plan_of(provider_of("scripted"))
        # A golden run would also hold its few results for the contract's own document.
        batch = msgspec.structs.replace(golden.datasets[0], contract="batch_v1")
        plan = msgspec.json.encode(msgspec.structs.replace(golden, datasets=(batch,)))
        notes = {"final_state": "completed", "completed_at": "2.0"}
        return RunRow(plan, "", "finalizing", (("queued", 1.0), ("finalizing", 2.0)), is_cancel_requested=False, notes=notes)

    def finished(self) -> Iterator[FinishedRecord]:
        return map(_record, range(RECORDS))


def _record(position: int) -> FinishedRecord:
    case = Case(id=f"q{position}", index=position, contract="batch_v1", task="open", dataset="d", prompt="p")
    row = RecordRow(position, case.id, "ab" * 32, msgspec.json.encode(case))
    reply = Reply(text=f"{position} " * (MEGABYTE // len(f"{position} ")))
    attempt = Attempt(stage="candidate", call_id="candidate", round=1, started_at=1.0, latency_ms=1.0, model="m", reply=reply)
    return FinishedRecord(
        row, (attempt,), GradedOutcome(grade=Grade(score=1.0, passed=True, answer="", raw_score=1.0, scale="0/1"))
    )


def test_long_answers_are_written_before_many_of_them_are_in_memory(tmp_path: Path) -> None:
    folders = RunPaths(tmp_path, "r")
    tracemalloc.start()
    try:
        finalize(LongReplies(), folders)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (folders.sealed / "predictions.jsonl").stat().st_size > (RECORDS - 1) * MEGABYTE
    assert peak < RECORDS * MEGABYTE / 2
