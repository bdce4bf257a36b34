"""The page of faults names tests; each of them is there."""

import re
from pathlib import Path

import pytest

PAGE = Path("docs/explanation/faults.md")
NAMED = re.compile(r"\]\(\.\./\.\./(tests/[\w/]+\.py)\)((?:[ ,]*`test_\w+`)+)")


def shown_by() -> list[tuple[str, str]]:
    """Each file with each of its tests that the page names."""
    found = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    return [(file, name) for file, names in found for name in re.findall(r"test_\w+", names)]


@pytest.mark.parametrize(("file", "name"), shown_by())
def test_a_fault_is_shown_by_a_test_that_is_there(file: str, name: str) -> None:
    assert re.search(rf"^(?:async )?def {name}\(", Path(file).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_row_of_faults_names_where_it_is_shown() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").partition("## Longer forms")[0].splitlines() if line.startswith("| ")]
    assert [row for row in rows if not row.startswith("| fault") and not NAMED.search(row)] == []
