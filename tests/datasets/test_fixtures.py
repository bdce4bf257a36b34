"""One claim per file below <contract>/valid and <contract>/invalid: what `<name>.issues.json` lists is found, and nothing else.

A valid file without such a list has no issues at all. `<name>.config.yaml` holds the settings that the claim needs.
With ASSAY_REGENERATE=1 the lists are written: those of new invalid files, those that changed, and empty ones beside valid files.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from assay import ValidationConfig, ValidationReport, validate
from assay.api import load_config
from assay.core.contract import CONTRACTS
from tests.regenerating import REGENERATE, is_regenerating

FOLDER = Path(__file__).parent
BESIDE = (".issues.json", ".config.yaml")
FIELDS = ("code", "path", "index", "record_id", "line", "column", "severity")
TURN_FIELDS = ("error_type", "name", "turn_id")


def fixtures(kind: str) -> list[Any]:
    """Every dataset of that kind, named by its contract and file."""
    found = [path for contract in CONTRACTS for path in sorted((FOLDER / contract / kind).iterdir())]
    return [pytest.param(path, id=f"{path.parts[-3]}/{path.name}") for path in found if not path.name.endswith(BESIDE)]


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def settings_of(path: Path) -> ValidationConfig:
    config = beside(path, ".config.yaml")
    return load_config(config) if config.exists() else ValidationConfig()


def found_in(report: ValidationReport) -> dict[str, Any]:
    """The report in the form of an issues.json file."""
    fields = FIELDS + (TURN_FIELDS if report.contract == "conversation_v1" else ())
    issues = [{field: getattr(issue, field) for field in fields} for issue in report.issues]
    return {"outcome": report.outcome, "summary": report.to_dict()["summary"], "issues": in_order(issues)}


def expected_of(path: Path) -> dict[str, Any]:
    """What is listed beside a file; with the variable set, what is found is written first where it is something else."""
    listing = beside(path, ".issues.json")
    if is_regenerating():
        found = found_in(validate(path, contract_of(path), config=settings_of(path)))
        listing.write_text(_listed(listing, found), encoding="utf-8")
    assert listing.exists(), f"{REGENERATE}=1 writes {listing.name}; read it before you commit it"
    expected: dict[str, Any] = json.loads(listing.read_text(encoding="utf-8"))
    return {**expected, "issues": in_order(expected["issues"])}


def _listed(listing: Path, found: dict[str, Any]) -> str:
    """The text of a list, which stays as it was written where it says the same."""
    text = listing.read_text(encoding="utf-8") if listing.exists() else ""
    known = json.loads(text or '{"issues": []}')
    is_same = {**known, "issues": in_order(known["issues"])} == found
    return text if is_same else json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def in_order(issues: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The order of issues is free."""
    return sorted(issues, key=lambda issue: json.dumps(issue, sort_keys=True))


def contract_of(path: Path) -> str:
    return path.parts[-3]


@pytest.mark.parametrize("path", fixtures("invalid"))
def test_an_invalid_file_has_exactly_the_listed_issues(path: Path) -> None:
    assert found_in(validate(path, contract_of(path), config=settings_of(path))) == expected_of(path)


@pytest.mark.parametrize("path", fixtures("invalid"))
def test_the_bytes_of_an_invalid_file_have_exactly_the_listed_issues(path: Path) -> None:
    assert found_in(validate(path.read_bytes(), contract_of(path), config=settings_of(path))) == expected_of(path)


@pytest.mark.parametrize("path", [case for case in fixtures("valid") if not beside(case.values[0], ".issues.json").exists()])
def test_a_valid_file_has_no_issues(path: Path) -> None:
    from_path = validate(path, contract_of(path), config=settings_of(path))
    from_bytes = validate(path.read_bytes(), contract_of(path), config=settings_of(path))
    assert (from_path.outcome, from_path.issues) == ("accepted", ())
    assert (from_bytes.outcome, from_bytes.issues) == ("accepted", ())


@pytest.mark.parametrize("path", [case for case in fixtures("valid") if beside(case.values[0], ".issues.json").exists()])
def test_a_valid_file_has_exactly_the_listed_warnings(path: Path) -> None:
    from_path = validate(path, contract_of(path), config=settings_of(path))
    from_bytes = validate(path.read_bytes(), contract_of(path), config=settings_of(path))
    assert from_path.is_valid
    assert found_in(from_path) == found_in(from_bytes) == expected_of(path)


@pytest.mark.parametrize("path", [case for case in fixtures("valid") if case.values[0].stat().st_size > 0])
def test_the_contract_of_a_valid_file_is_recognised(path: Path) -> None:
    assert validate(path, config=settings_of(path)).contract == contract_of(path)


@pytest.mark.parametrize("path", fixtures("valid"))
def test_a_valid_file_gives_as_many_cases_as_its_report_says(path: Path) -> None:
    report = validate(path, contract_of(path), config=settings_of(path))
    cases = list(report.cases)
    turns = sum(len(case.turns) for case in cases)
    assert (turns if report.contract == "conversation_v1" else len(cases)) == report.counts.accepted_records
    assert all(len(case.record_sha256) == 64 for case in cases)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_list_of_issues_stands_beside_its_file(contract: str) -> None:
    lists = [path for path in (FOLDER / contract).rglob("*") if path.name.endswith(BESIDE)]
    assert len(lists) > 0
    assert [
        path.name
        for path in lists
        if not path.with_name(path.name.removesuffix(".issues.json").removesuffix(".config.yaml")).exists()
    ] == []
