"""Reports as JSON lines: one issue per line, for grep, jq and databases."""

from collections.abc import Iterable, Iterator
from typing import Any

from assay.core.report import ValidationReport
from assay.surfaces.reporters.json_document import change_values, file_values
from assay.surfaces.reporters.plain_json import json_text
from assay.surfaces.reporters.settings import ReportSettings

_DATASET_LEVEL: dict[str, Any] = {"index": None, "record_id": None, "severity": "error"}


def json_lines_report(reports: Iterable[ValidationReport], settings: ReportSettings) -> Iterator[str]:
    """Each issue with its `file` and `contract`; a fix that was applied has the severity `fixed`.

    Where a file has more issues than a report lists, its last line has their number as `omitted_issues`.
    """
    for report in reports:
        source = {"file": report.path, "contract": report.contract}
        for change in settings.changes:
            yield json_text({**source, "file": settings.fixed_source, "severity": "fixed", **change_values(change)}) + "\n"
        values = file_values(report, settings)
        for issue in values["dataset_errors"]:
            yield json_text({**source, **_DATASET_LEVEL, **issue}) + "\n"
        for issue in (*values["record_errors"], *values["warnings"]):
            yield json_text({**source, **issue}) + "\n"
        if report.unlisted:
            yield json_text({**source, "omitted_issues": values["omitted_issues"]}) + "\n"
