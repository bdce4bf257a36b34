"""Events as lines of JSON: one object to a line, in ASCII, so that no text can break a line or move a cursor."""

import json
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from assay import api
from assay.core.errors import AssayError, UsageProblem
from assay.core.run_result import RunResult
from assay.surfaces.observers import FIELDS

RUN_LOGGER = "assay.run"


class JsonLines(logging.Formatter):
    """A log record as one line: time, level, logger, message, and what the event carries."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line, without its end."""
        # In UTC with `Z`, which every log store reads.
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["stack"] = self.formatException(record.exc_info)
        # ASCII by default, so that no character can break a line or move a cursor; `str` for what JSON lacks.
        return json.dumps({name: value for name, value in line.items() if value not in (None, "")}, default=str)


class JsonLogWriter(logging.StreamHandler[TextIO]):
    """Writer of the lines; it counts those that it cannot write."""

    lost = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002  # the parent's name and signature
        """Count a line that was not written: the disk is full, or the reader is gone."""
        # logging would print a traceback for each record, into the terminal of the run.
        self.lost += 1


def log_to(path: str | None) -> JsonLogWriter:
    """Send what assay logs to a file, or to standard error; `stop_logging` ends it. Raises UsageProblem."""
    lines = JsonLogWriter(_stream(path))
    lines.setFormatter(JsonLines())
    logger = logging.getLogger("assay")
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    # Without this a handler of the application would print every line once more.
    logger.propagate = False
    return lines


def stop_logging(lines: JsonLogWriter) -> list[str]:
    """Log nothing more, and close the file; one sentence on lines that could not be written, or none."""
    logger = logging.getLogger("assay")
    logger.removeHandler(lines)
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    # Standard error is not ours to close.
    if lines.stream is not sys.stderr:
        with suppress(OSError):
            lines.stream.close()
    return [f"{lines.lost:,} lines of the log could not be written"] if lines.lost else []


def _stream(path: str | None) -> TextIO:
    if path is None:
        return sys.stderr
    try:
        # Line by line, so that a reader of the file sees whole lines, and a crash loses none.
        return Path(path).open("a", encoding="ascii", buffering=1)
    except OSError as problem:
        raise UsageProblem(f"--log-file '{path}': {(problem.strerror or str(problem)).lower()}") from problem


class RunLog:
    """An observer that logs what it sees: a line for each record, one for each failed call, and the ends of runs. No texts."""

    wants_texts = False

    def __init__(self) -> None:
        self._log = logging.getLogger(RUN_LOGGER)

    def __call__(self, seen: api.RecordEvent, /) -> None:
        """Handle a finished record."""
        for call in seen.calls:
            if call.error_code:
                self._log.warning("call failed", extra={FIELDS: _failed_call(seen, call)})
        level = logging.INFO if seen.score is not None else logging.WARNING
        self._log.log(level, "record ended", extra={FIELDS: _record(seen)})

    def run_started(self, run_id: str) -> None:
        """Handle the start of a run."""
        self._log.info("run started", extra={FIELDS: {"event": "run_started", "run_id": run_id}})

    def run_ended(self, result: RunResult) -> None:
        """Handle the end or the interruption of a run."""
        counts = result.counts
        fields = {
            "event": "run_ended",
            "run_id": result.run_id,
            "state": result.state,
            "candidate": result.candidate,
            "records": counts.total_records,
            "evaluated": counts.evaluated_records,
            "gate_passed": result.gate.passed,
            "reasons": list(result.gate.reasons) or None,
        }
        self._log.info("run ended", extra={FIELDS: fields})

    def run_failed(self, problem: AssayError) -> None:
        """Handle a run that failed before its end."""
        self._log.error(problem.message, extra={FIELDS: {"event": "run_failed", "code": problem.code, "hint": problem.hint}})


def _record(seen: api.RecordEvent) -> dict[str, object]:
    costs = [call.cost for call in seen.calls if call.cost is not None]
    return {
        "event": "record",
        "run_id": seen.run_id,
        "record_id": seen.record_id,
        "sample": seen.sample or None,
        "dataset": seen.dataset,
        "status": seen.status,
        "code": seen.code,
        "reason": seen.message,
        "passed": seen.passed,
        "score": seen.score,
        "label": seen.label,
        "calls": len(seen.calls),
        "seconds": round(seen.ended_at - seen.started_at, 3),
        "cost_usd": sum(costs) if costs else None,
    }


def _failed_call(seen: api.RecordEvent, call: api.CallEvent) -> dict[str, object]:
    return {
        "event": "call_failed",
        "run_id": seen.run_id,
        "record_id": seen.record_id,
        "call_id": call.call_id,
        "request_id": call.response_id,
        "model": call.model,
        "round": call.round,
        "code": call.error_code,
        "reason": call.error_message,
        "http_status": call.http_status,
        "wait_s": call.wait_s,
    }
