"""A run to look at: its result, its records, its failures, whether it is sealed or still under way."""

from collections.abc import Iterator
from typing import Any

import msgspec

from assay.core.errors import RunNotFound
from assay.core.plan import Plan
from assay.core.run_result import RunResult
from assay.engine.evidence import Evidence
from assay.engine.folders import RunFolders
from assay.engine.runs import result_of
from assay.store.folder import RunFolder, open_run_folder
from assay.store.ledger import FinishedRecord
from assay.store.redact import Redactor
from assay.store.sqlite import open_ledger

Line = dict[str, Any]


class Run:
    """One run, read from its artifacts; of an unfinished one, from its ledger."""

    def __init__(self, folders: RunFolders) -> None:
        self.folders = folders
        self._sealed: RunFolder | None = open_run_folder(folders.sealed) if folders.is_sealed else None

    @property
    def result(self) -> RunResult:
        """Where the run stands, with its counts, metrics and gate."""
        return result_of(self.folders)

    @property
    def manifest(self) -> Line:
        """The manifest; for an unfinished run what it would begin with."""
        if self._sealed is not None:
            return self._sealed.manifest
        plan = self._plan()
        return {"run_id": plan.run_id, "status": self.result.state, "plan": msgspec.to_builtins(plan)}

    def predictions(self) -> Iterator[Line]:
        """Every valid record with what came of it so far, in order."""
        if self._sealed is not None:
            yield from self._sealed.lines("predictions.jsonl")
            return
        for finished, evidence in self._open_evidence():
            if finished.record.case is not None and finished.outcome is not None:
                yield msgspec.to_builtins(evidence.prediction(finished.record.record_id or "", _dataset(finished)))

    def failures(self) -> Iterator[Line]:
        """Every record that failed or did not pass."""
        if self._sealed is not None:
            yield from self._sealed.lines("failures.jsonl")
            return
        for finished, evidence in self._open_evidence():
            failure = evidence.failure() if finished.outcome is not None else None
            if failure is not None:
                yield msgspec.to_builtins(failure)

    def attempts(self, record_id: str) -> Iterator[Line]:
        """Every attempt at one record."""
        if self._sealed is not None:
            yield from (line for line in self._sealed.lines("attempt_logs.jsonl") if line["record_id"] == record_id)
            return
        for finished, evidence in self._open_evidence():
            if finished.record.record_id == record_id:
                for number, attempt in enumerate(finished.attempts, 1):
                    yield msgspec.to_builtins(evidence.attempt(number, attempt))

    def record(self, record_id: str) -> Line:
        """One record: what was asked, what came of it, every attempt; raises RunNotFound when there is none."""
        prediction = next((line for line in self.predictions() if line["record_id"] == record_id), None)
        if prediction is None:
            raise RunNotFound(
                f"run '{self.folders.run_id}' has no finished record '{record_id}'", hint="predictions.jsonl lists the records"
            )
        return {"input": self._input(record_id), "prediction": prediction, "attempts": list(self.attempts(record_id))}

    def _input(self, record_id: str) -> Line:
        if self._sealed is not None:
            records = self._sealed.document("input_dataset.json")["records"]
            return next((entry["record"] for entry in records if entry["record_id"] == record_id), {})
        redactor = Redactor()
        cases = (finished.record.case for finished, _ in self._open_evidence() if finished.record.record_id == record_id)
        found: Line = redactor.value(msgspec.json.decode(next(cases) or b"{}"))
        return found

    def _plan(self) -> Plan:
        ledger = open_ledger(self.folders.ledger)
        try:
            return msgspec.json.decode(ledger.run().plan, type=Plan)
        finally:
            ledger.close()

    def _open_evidence(self) -> Iterator[tuple[FinishedRecord, Evidence]]:
        plan, redactor = self._plan(), Redactor()
        ledger = open_ledger(self.folders.ledger)
        try:
            for finished in ledger.finished():
                yield finished, Evidence(finished, plan, redactor)
        finally:
            ledger.close()


def _dataset(finished: FinishedRecord) -> str:
    name: str = msgspec.json.decode(finished.record.case or b"{}").get("dataset", "")
    return name
