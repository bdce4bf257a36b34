"""Reports of every format, compared with golden files and read back by strict readers."""

import re
from typing import NamedTuple

import pytest

from assay.core.report import ValidationReport
from assay.surfaces.reporters.formats import FORMATS, ReportSettings
from tests.surfaces.conftest import Snapshot

PLAIN = ReportSettings(version="9.9.9")
SUFFIXES = {"text": "txt", "json": "json", "jsonl": "jsonl", "sarif": "sarif", "junit": "xml", "github": "log", "markdown": "md"}


class Fix(NamedTuple):
    line: int | None
    path: str
    message: str


CHANGES = (Fix(1, "", "byte order mark removed"), Fix(7, "records[0].id", "trimmed"))
FIXED = ReportSettings(version="9.9.9", fixed_source="odd.json", fixed_copy="fixed.json", changes=CHANGES)


def shown(name: str, *reports: ValidationReport, settings: ReportSettings = PLAIN) -> str:
    return "".join(FORMATS[name](reports, settings))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_matches_its_snapshot(
    name: str, snapshot: Snapshot, clean: ValidationReport, broken: ValidationReport, conversation: ValidationReport
) -> None:
    snapshot(f"reports.{SUFFIXES[name]}", shown(name, clean, broken, conversation))


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_matches_its_snapshot(name: str, snapshot: Snapshot, hostile: ValidationReport) -> None:
    snapshot(f"hostile.{SUFFIXES[name]}", shown(name, hostile))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_lists_the_fixes(name: str, snapshot: Snapshot, clean: ValidationReport) -> None:
    snapshot(f"fixes.{SUFFIXES[name]}", shown(name, clean, settings=FIXED))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_utf8_form_whatever_the_text(name: str, hostile: ValidationReport) -> None:
    assert shown(name, hostile).encode("utf-8", "strict")


@pytest.mark.parametrize("name", ["text", "github", "markdown", "junit"])
def test_no_control_or_override_character_reaches_a_terminal_or_log(name: str, hostile: ValidationReport) -> None:
    assert re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown(name, hostile)) == []
