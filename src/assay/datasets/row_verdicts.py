"""What readers say alike of every file of rows: that it has none, that an id was used before, and what comes of it all."""

from assay.core.issue import Issue, Path
from assay.core.report import Counts, Outcome
from assay.datasets.checks import Findings, short

NO_ROWS = Issue(code="empty_dataset", severity="warning", message="the file has no rows")


def add_used_id(found: Findings, record_id: str, path: Path, *, first: str) -> None:
    """Note that the row `first` has the same id."""
    message = f"id {short(record_id)} was used by {first}"
    found.add("duplicate_record_id", path, message, hint="ids are unique in a file; keep one of the rows")


def outcome_of(counts: Counts) -> Outcome:
    """A file is rejected only when all of its rows are."""
    if not counts.rejected_records:
        return "accepted"
    return "accepted_with_record_errors" if counts.accepted_records else "rejected"
