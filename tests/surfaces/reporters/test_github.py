"""Commands of GitHub's workflows."""

from assay.core.report import ValidationReport
from tests.surfaces.reporters.test_formats import shown
from tests.surfaces.reporters.test_text import issues_like


def test_github_commands_stay_on_one_line_each(hostile: ValidationReport) -> None:
    lines = shown("github", hostile).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("::error file=")


def test_github_properties_escape_commas_and_colons() -> None:
    report = issues_like(1)
    odd = ValidationReport(path="a,b:c%.json", contract="batch_v1", outcome="rejected", counts=report.counts, issues=report.issues)
    assert shown("github", odd).startswith("::error file=a%2Cb%3Ac%25.json,line=1,title=string_too_long::too long%0A")
