"""The stages of a run but for its calls, each alone: `python bench/run_tasks.py COUNT FOLDER` prints their CPU seconds as JSON.

The ledger is filled with what an evaluation of the cases would have left: for every record an attempt at the candidate, an
attempt at the judge, and a grade, appended in groups as large as the engine's.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.api import plan_runs
from assay.core.model_call import Reply, Stage, Usage
from assay.core.outcome import Attempt, Grade, GradedOutcome, Outcome, Score
from assay.engine.execution.run import open_or_create
from assay.engine.finalization.finalize import finalize
from assay.engine.planning.request import RunRequest
from assay.engine.planning.selection import prepared_records
from assay.engine.storage.run_paths import RunPaths
from assay.store.ledger import SHARD_SIZE, CommitEntry, Ledger
from cases import cases_file
from stub import ANSWER, CANDIDATE, JUDGE, VERDICT

GROUP = 64
"""Entries in one transaction: as many as there are calls in flight."""
RUN_ID = "stages"


class Stopwatch:
    """CPU seconds by the name of what they were spent on."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Count what happens inside."""
        start = time.process_time()
        yield
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - start


def main(count: int, folder: Path) -> dict[str, float]:
    """Every stage of a run over so many records, but for the calls."""
    watch = Stopwatch()
    request = RunRequest(
        datasets=(str(cases_file(count)),),
        models=(f"openai/{CANDIDATE}",),
        judges=(f"openai/{JUDGE}",),
        runs_dir=str(folder),
        run_id=RUN_ID,
    )
    with watch.on("plan"):
        planned = plan_runs(request, environ={"OPENAI_API_KEY": "bench"})
    (plan,) = planned.plans
    folders = RunPaths(folder, RUN_ID)
    open_or_create(plan, folders, at=time.time())
    ledger = folders.open_ledger()
    ledger.set_state("queued", "validating", at=time.time())
    with watch.on("input"):
        ledger.replace_records(prepared_records(plan, planned.inputs))
    ledger.set_state("validating", "running", at=time.time())
    append_all(ledger, count, watch)
    ledger.set_note("final_state", "completed")
    ledger.set_note("completed_at", repr(time.time()))
    ledger.set_state("running", "finalizing", at=time.time())
    with watch.on("finalise"):
        finalize(ledger, folders)
    ledger.close()
    return watch.spent


def append_all(ledger: Ledger, count: int, watch: Stopwatch) -> None:
    """All records to their outcomes, shard by shard, each record in two transactions as the engine does it."""
    for shard in range(0, count, SHARD_SIZE):
        claim = ledger.claim(shard // SHARD_SIZE, owner="bench")
        positions = range(shard, min(shard + SHARD_SIZE, count))
        for start in range(0, len(positions), GROUP):
            group = positions[start : start + GROUP]
            answered = [CommitEntry(position, (attempt("candidate", position),)) for position in group]
            judged = [CommitEntry(position, (attempt("judge", position),), graded()) for position in group]
            with watch.on("append"):
                ledger.append(claim, answered)
                ledger.append(claim, judged)


def attempt(stage: Stage, position: int) -> Attempt:
    """A successful call."""
    is_judge = stage == "judge"
    reply = Reply(
        text=json.dumps(VERDICT) if is_judge else ANSWER,
        finish_reason="stop",
        usage=Usage(input_tokens=90, output_tokens=20, total_tokens=110),
        model="bench",
        request_id="chatcmpl-bench",
        applied={"temperature": 0.0},
    )
    return Attempt(
        stage=stage,
        call_id="judge:overall" if is_judge else "candidate",
        round=1,
        started_at=time.time(),
        latency_ms=1000.25,
        model=f"openai/{JUDGE if is_judge else CANDIDATE}",
        request_sha256=hashlib.sha256(f"{stage} {position}".encode()).hexdigest(),
        reply=reply,
        request_id=reply.request_id,
    )


def graded() -> Outcome:
    """The grade that the judge's verdict means."""
    words = str(VERDICT["justification"])
    score = Score(criterion="overall", score=4, scale="1-5", normalized=0.75, justification=words, judge=f"openai/{JUDGE}")
    grade = Grade(
        score=0.75,
        passed=True,
        answer=ANSWER,
        raw_score=4,
        scale="1-5",
        scores=(score,),
        justification=words,
        evaluator="judge_1_5/1",
        template_sha256=hashlib.sha256(b"template").hexdigest(),
    )
    return GradedOutcome(grade=grade)


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), Path(sys.argv[2]))))
