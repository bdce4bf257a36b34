"""Page of one record, with the way to its neighbours and the form for labels."""

from collections.abc import Sequence

import msgspec

from assay.core.artifact_lines import InvalidRecord, RecordDetails
from assay.core.issue import RecordIssue
from assay.presentation.record import LabelView, RecordReport, record_report
from assay.surfaces.pages.page_renderer import PageLinks


class RecordNavigation(msgspec.Struct, frozen=True, kw_only=True):
    """Way to the neighbours of this record."""

    text: str = ""
    """Where it stands among those of the list."""
    list_address: str
    previous_address: str = ""
    next_address: str = ""


class RecordView(RecordReport, frozen=True, kw_only=True):
    """Page of one record."""

    run_id: str
    steps: RecordNavigation
    run_address: str
    json_address: str = ""
    labels: tuple[LabelView, ...] = ()
    label_address: str = ""
    """Where a label is sent; empty where none can be given."""


def record_view(
    run_id: str,
    found: RecordDetails | InvalidRecord,
    steps: RecordNavigation,
    *,
    place: PageLinks,
    issues: Sequence[RecordIssue] = (),
) -> RecordView:
    """Return the page of a record; `issues` are those of one that broke its contract."""
    # `asdict` is shallow: the views inside are shared and not copied.
    members = msgspec.structs.asdict(record_report(found, issues))
    return RecordView(**members, run_id=run_id, steps=steps, run_address=place.run(run_id))
