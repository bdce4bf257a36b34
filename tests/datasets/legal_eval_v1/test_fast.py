"""The fast path of legal_eval_v1 and its exact rules agree: what it accepts has no issue, and the same hash."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given

from assay import validate
from assay.core.issue import Finding
from assay.core.strict_json import parse_json
from assay.datasets.legal_eval_v1 import fast as legal_fast
from assay.datasets.legal_eval_v1 import rules as legal_rules
from assay.datasets.parsing.checks import FindingList, check_flaws
from assay.datasets.parsing.fast_path import FastPath
from tests.datasets.test_reader_agreement import DEFAULT, EXAMPLES, ROWS, digests_of, rfc8785_digest, seeds
from tests.mutants import mutant_of


def legal_verdicts(lines: list[bytes]) -> list[legal_fast.CleanRow | None]:
    return legal_fast.clean_rows(FastPath(legal_fast.ROW_SCHEMA), lines)


def exact_row(line: bytes) -> list[Finding]:
    document = parse_json(line)
    found = FindingList()
    check_flaws(found, document, ())
    return [*found, *(legal_rules.check_row(document.value, DEFAULT) if document.is_readable else ())]


@pytest.mark.parametrize("row", ROWS)
def test_the_fast_path_takes_a_clean_row(row: dict[str, Any]) -> None:
    assert legal_verdicts([msgspec.json.encode(row)]) != [None]


@given(seeds)
@EXAMPLES
def test_a_row_that_the_fast_path_takes_has_no_finding_but_the_warnings_that_it_names(seed: int) -> None:
    random = Random(seed)
    lines = [mutant_of(random.choice(ROWS), random) for _ in range(8)]
    for line, clean in zip(lines, legal_verdicts(lines), strict=True):
        found = exact_row(line)
        assert clean is None or {finding.severity for finding in found} <= {"warning"}
        assert clean is None or {legal_rules.warning_kind(finding) for finding in found} == set(clean.warned)


@given(seeds)
@EXAMPLES
def test_an_accepted_row_has_the_hash_of_rfc8785(seed: int) -> None:
    random = Random(seed)
    line = mutant_of(random.choice(ROWS), random).replace(b"\n", b"")
    digests = digests_of(validate(line, "legal_eval_v1"))
    values = [parse_json(line).value for _ in digests]
    assert digests == [rfc8785_digest(value) for value in values]


@pytest.mark.parametrize("escape", ["\\u0000", 'Yes","text":"x\\u0022\\u0022\\u0022\\u0022'], ids=["nul", "a-name-twice"])
@pytest.mark.parametrize("unknown", ["", '"language":"en",'], ids=["plain", "with-an-unknown-field"])
def test_escapes_that_hide_something_are_seen_in_a_row(escape: str, unknown: str) -> None:
    line = msgspec.json.encode(ROWS[2]).replace(b"{", b"{" + unknown.encode(), 1).replace(b"Never", escape.encode())
    [clean] = legal_verdicts([line])
    assert clean is None
