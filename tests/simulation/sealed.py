"""The artifacts of a history as plain JSON, read without any code of the engine."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

Line = dict[str, Any]
CHECK = "check"
REJECTIONS = {
    "unauthorized",
    "payment_required",
    "forbidden",
    "not_found",
    "redirect_refused",
    "certificate_refused",
    "rate_limited",
}
"""Codes of failures with which a provider may reject the calls of a whole run."""


class Sealed:
    """One folder of artifacts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lines(self, name: str) -> list[Line]:
        """The lines of one file."""
        return [json.loads(line) for line in (self.folder / name).read_text().split("\n") if line]

    def document(self, name: str) -> Any:
        """One whole file."""
        return json.loads((self.folder / name).read_text())

    @cached_property
    def manifest(self) -> Any:
        """What the run says of itself."""
        return self.document("run_manifest.json")

    @cached_property
    def predictions(self) -> list[Line]:
        """One line for each valid record."""
        return self.lines("predictions.jsonl")

    @cached_property
    def attempts(self) -> list[Line]:
        """One line for each attempt, in their order, with its time in seconds."""
        return [{**line, "at_seconds": datetime.fromisoformat(line["at"]).timestamp()} for line in self.lines("attempt_logs.jsonl")]

    @cached_property
    def summary(self) -> Any:
        """The metrics of the run."""
        return self.document("metrics_summary.json")

    @cached_property
    def invalid(self) -> list[int]:
        """Positions of the records that broke their contract."""
        return [line["index"] for line in self.lines("record_validation.jsonl") if line["result"] == "rejected"]

    @cached_property
    def by_status(self) -> Counter[str]:
        """How many records came to which end."""
        return Counter({"invalid_record": len(self.invalid)}) + Counter(line["status"] for line in self.predictions)

    @cached_property
    def by_call(self) -> dict[tuple[int, str], list[Line]]:
        """The attempts of each call of each record, in their order, without what a provider's rejection of a run adds.

        A rejection that ended a run is no attempt of the record, and what was sent to check it is the request of another one.
        """
        found: dict[tuple[int, str], list[Line]] = defaultdict(list)
        for line in self.attempts:
            if line["call_id"] != CHECK:
                found[line["index"], line["call_id"]].append(line)
        return {call: [*(line for line in lines[:-1] if not _is_rejection(line)), lines[-1]] for call, lines in found.items()}

    def asked_judges(self, position: int) -> list[str]:
        """Ids of the requests to judges of one record."""
        asked = [line for line in self.attempts if line["index"] == position and line["stage"] == "judge"]
        return [line["request_id"] for line in asked if line["call_id"] != CHECK]

    @cached_property
    def members(self) -> dict[tuple[str, Any], list[Line]]:
        """The predictions of each value of each slice, by what the input says of the record."""
        found: dict[tuple[str, Any], list[Line]] = defaultdict(list)
        for line, kept in zip(self.predictions, self.lines("cases.jsonl"), strict=True):
            for value in kept["record"].get("tags") or [None]:
                found["tags", value].append(line)
            found["dataset", line["dataset"]].append(line)
        return found

    def tables(self) -> Iterator[tuple[str, Any, Line]]:
        """Every table of counts: name of the slice, its value, the table; the run as a whole has no name."""
        yield "", None, self.summary
        for name, found in self.document("metrics_by_slice.json")["slices"].items():
            for table in found["values"]:
                yield name, table["value"], table


def _is_rejection(line: Line) -> bool:
    """True for a call after which its record would have failed, had it been the record's own."""
    return line["wait_s"] is None and line["error_code"] in REJECTIONS
