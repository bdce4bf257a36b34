"""Validation for scripts and notebooks: a report that shows itself."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from assay import api
from assay.core.report import ValidationReport
from assay.core.settings import ColumnSection


class ShownReport(ValidationReport):
    """Verdict on one source; shows itself in a notebook."""

    def _repr_html_(self) -> str:
        """Render the report for a notebook."""
        html: str = import_module("assay.surfaces.python_api.cards").report_card(self)
        return html


def validate(
    source: object,
    contract: object = "auto",
    *,
    config: api.ValidationConfig | None = None,
    strict: bool = False,
    allow_size: bool = False,
    null_as_absent: bool = False,
    progress: Callable[[int, int], None] | None = None,
    workers: int = 1,
    columns: Mapping[str, str | Sequence[str]] | ColumnSection | None = None,
    sheet: str = "",
    name: str = "",
) -> ValidationReport:
    """Validate a path, bytes, dicts, a DataFrame, an Arrow table or a dataset of Hugging Face; never raises for invalid content.

    `columns` names the columns of a table by what they hold, such as `{"prompt": "Question", "reference": "Answer"}`. `name` is
    that of data in memory, of bytes with the ending that says what they are. Raises SourceUnreadable, and UsageProblem for an
    object that cannot be a dataset.

    `allow_size` accepts golden datasets with fewer than 5 or more than 20 cases. `null_as_absent` reads optional and forbidden
    fields that are null as absent.
    """
    found = api.validate(
        source,
        contract,
        config=config,
        strict=strict,
        allow_size=allow_size,
        null_as_absent=null_as_absent,
        progress=progress,
        workers=workers,
        columns=columns,
        sheet=sheet,
        name=name,
    )
    # A copy of the report as the class that shows itself; its cases are still read one by one when they are
    # iterated over.
    shown = ShownReport(
        path=found.path,
        contract=found.contract,
        outcome=found.outcome,
        counts=found.counts,
        issues=found.issues,
        unlisted=found.unlisted,
        dataset_error_count=found.dataset_error_count,
        broken=found.broken,
        open_records=lambda: found.records,
        open_issues=lambda: found.all_issues,
        fields=found.fields,
        open_head=lambda: found.head,
    )
    shown.digests = found.digests
    # Set after construction: hashes are there only for callers that asked for them.
    return shown
