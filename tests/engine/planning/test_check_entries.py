from typing import Any

from assay.core.checks import MAX_CHECKS
from assay.datasets.parsing.checks import FindingList
from assay.engine.planning.check_entries import usable_checks


def usable(*entries: Any) -> tuple[list[Any], list[tuple[Any, str]]]:
    found = FindingList()
    checks = usable_checks(entries, found=found, path=("checks",))
    return checks, [(finding.path, finding.message) for finding in found]


def test_checks_are_returned_as_they_stand() -> None:
    entry = {"type": "equals", "value": "Paris"}
    assert usable(entry) == ([entry], [])


def test_every_problem_is_found_at_its_member() -> None:
    pattern, length = {"type": "regex", "value": "("}, {"type": "length"}
    checks, found = usable(pattern, length, {"type": "is-json", "name": "a"}, {"type": "is-json", "name": "a"})
    assert [path for path, _ in found] == [("checks", 0, "value"), ("checks", 1), ("checks", 3, "name")]
    assert checks == [{"type": "is-json", "name": "a"}]


def test_two_checks_of_a_type_need_no_names() -> None:
    assert len(usable({"type": "is-json"}, {"type": "is-json"})[0]) == 2


def test_a_run_has_a_limited_number_of_checks() -> None:
    _, found = usable(*[{"type": "is-json"}] * (MAX_CHECKS + 1))
    assert found == [(("checks",), "201 checks are more than 200")]


def test_an_entry_that_could_not_be_read_is_left_out() -> None:
    found = FindingList()
    found.add("invalid_field_type", ("checks", 0, "value"), "wrong")
    assert usable_checks([{"type": "regex"}, {"type": "is-json"}], found=found, path=("checks",)) == [{"type": "is-json"}]
