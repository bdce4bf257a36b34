"""One argument of a call against the expected one, by each rule."""

import pytest

from assay.core.call_rules import ArgumentRule, Rule
from assay.grading.argument_rules import NOTHING, fits


@pytest.mark.parametrize(
    ("rule", "given", "wanted", "is_right"),
    [
        ("exact", 1, 1.0, True),
        ("exact", 1, "1", False),
        ("exact", "Graz", "graz", False),
        ("exact", {"a": [1]}, {"a": [1.0]}, True),
        ("exact", True, 1, False),
        ("exact", NOTHING, 1, False),
        ("exact", 1, NOTHING, False),
        ("set", [2, 1, 1], [1, 2], True),
        ("set", [1, 2, 3], [1, 2], False),
        ("set", "a", "a", True),
        ("case", "  New   YORK ", "new york", True),
        ("case", ["A", {"b": "C"}], ["a", {"b": "c"}], True),
        ("case", "Straße", "STRASSE", True),
        ("case", "York", "New York", False),
        ("date", "2026-11-20", "20 November 2026", True),
        ("date", "November 20th, 2026", "2026-11-20", True),
        ("date", "Nov 20, 2026", "11/20/2026", True),
        ("date", "20.11.2026", "2026-11-20T09:15", True),
        ("date", "2026-11-20T09:15:00+01:00", "2026-11-20T08:15:00Z", True),
        ("date", "2026-11-20T09:15", "2026-11-20T09:16", False),
        ("date", "01/02/2026", "2026-01-02", False),
        ("date", "01/02/2026", "01/02/2026", True),
        ("date", "soon", "2026-01-02", False),
        ("date", 5, "2026-01-02", False),
        ("ignore", NOTHING, 1, True),
        ("ignore", 5, NOTHING, True),
        ("judge", "Vienna", "Vienna", True),
        ("judge", "Vienna", "Wien", None),
        ("judge", NOTHING, "Wien", False),
        (ArgumentRule(within=0.5), 10.5, 10, True),
        (ArgumentRule(within=0.5), 10.6, 10, False),
        (ArgumentRule(within=0.1), 0.3, 0.2, True),
        (ArgumentRule(within=0.0), 1, 1.0, True),
        (ArgumentRule(within=5.0), "10", 10, False),
        (ArgumentRule(within=5.0), True, 1, False),
        (ArgumentRule(within_percent=10.0), 110, 100, True),
        (ArgumentRule(within_percent=10.0), 111, 100, False),
        (ArgumentRule(any_of=("KL", "KLM")), "KLM", "Air", True),
        (ArgumentRule(any_of=("KL", "KLM")), "klm", "Air", False),
        (ArgumentRule(any_of=(1,), optional=True), NOTHING, 1, True),
        (ArgumentRule(any_of=(1,)), NOTHING, 1, False),
        (ArgumentRule(optional=True), NOTHING, 1, True),
        (ArgumentRule(optional=True), 2, 1, False),
    ],
)
def test_an_argument_is_right_by_its_rule(rule: Rule, given: object, wanted: object, *, is_right: bool | None) -> None:
    assert fits(rule, given, wanted) is is_right
