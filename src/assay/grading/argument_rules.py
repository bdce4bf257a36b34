"""Comparison of one argument of a tool call with the expected one, by a rule."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from assay.core.call_rules import ArgumentRule, BfclValue, RecordArgumentRule, Rule
from assay.core.canonical import canonical_json
from assay.grading.bfcl_values import fits_bfcl

NOTHING: Any = object()
"""Stands for an argument that was left out, or that is not expected."""
_SPACES = re.compile(r"\s+")
_MAX_DATE = 100
"""Characters of a text that is read as a date."""
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_SLASHED = re.compile(r"(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})")
_FORMS = ("%Y/%m/%d", "%Y.%m.%d", "%B %d %Y", "%b %d %Y", "%d %B %Y", "%d %b %Y", "%A %B %d %Y", "%A %d %B %Y", "%a %d %b %Y")


def fits(rule: Rule, given: object, wanted: object) -> bool | None:
    """Return whether an argument is right; None when a judge has to decide."""
    if isinstance(rule, ArgumentRule):
        return _fits_options(rule, given, wanted)
    if rule == "ignore":
        return True
    if given is NOTHING or wanted is NOTHING:
        return False
    if rule == "judge":
        return same_value(given, wanted) or None
    return _BY_WORD[rule](given, wanted)


def _fits_options(rule: ArgumentRule, given: object, wanted: object) -> bool:
    if isinstance(rule, RecordArgumentRule) and isinstance(rule.bfcl, BfclValue):
        return fits_bfcl(rule.bfcl, given, is_given=given is not NOTHING)
    if given is NOTHING:
        return rule.optional
    if rule.any_of:
        return any(same_value(given, value) for value in rule.any_of)
    if wanted is NOTHING:
        return rule.optional
    return _is_near(rule, given, wanted) or same_value(given, wanted)


def same_value(given: object, wanted: object) -> bool:
    """Return whether two values are equal as JSON: 1 and 1.0 are, 1 and "1" are not."""
    # Texts, as most arguments are, need no encoding.
    if type(given) is str or type(wanted) is str:
        return given == wanted
    return canonical_json(given) == canonical_json(wanted)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_near(rule: ArgumentRule, given: Any, wanted: Any) -> bool:
    if not _is_number(given) or not _is_number(wanted):
        return False
    if isinstance(rule.within, float):
        allowed = rule.within
    elif isinstance(rule.within_percent, float):
        allowed = abs(wanted) * rule.within_percent / 100
    else:
        return False
    # A difference such as 0.30000000000000004 - 0.2 is one of the arithmetic, not of the values.
    return bool(abs(given - wanted) <= allowed + 1e-9 * max(1.0, abs(wanted)) * (allowed > 0))


def _same_set(given: object, wanted: object) -> bool:
    if not isinstance(given, list) or not isinstance(wanted, list):
        return same_value(given, wanted)
    return {canonical_json(value) for value in given} == {canonical_json(value) for value in wanted}


def _same_folded(given: object, wanted: object) -> bool:
    return same_value(_folded(given), _folded(wanted))


def _folded(value: object) -> object:
    if isinstance(value, str):
        return _SPACES.sub(" ", value).strip().casefold()
    if isinstance(value, list):
        return [_folded(member) for member in value]
    return {name: _folded(member) for name, member in value.items()} if isinstance(value, dict) else value


def _same_date(given: object, wanted: object) -> bool:
    if same_value(given, wanted):
        return True
    first, second = _read_date(given), _read_date(wanted)
    if first is None or second is None:
        return False
    # A date without a time of day says nothing about the time.
    if first[1] and second[1]:
        return first[0] == second[0]
    return first[0].date() == second[0].date()


def _read_date(value: object) -> tuple[datetime, bool] | None:
    """Read a date in one of the usual forms, and whether it has a time of day; None for other values and for doubtful ones."""
    if not isinstance(value, str) or len(value) > _MAX_DATE:
        return None
    text = value.strip()
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is not None:
        has_time = ":" in text
        return (found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)), has_time
    slashed = _SLASHED.fullmatch(text)
    if slashed is not None:
        return _read_slashed(*map(int, slashed.groups()))
    plain = _SPACES.sub(" ", _ORDINAL.sub("", text).replace(",", " ").replace(".", "" if text[:1].isalpha() else "."))
    for form in _FORMS:
        try:
            return datetime.strptime(plain.strip(), form).replace(tzinfo=UTC), False
        except ValueError:
            continue
    return None


def _read_slashed(first: int, second: int, year: int) -> tuple[datetime, bool] | None:
    """Read 25/12/2026 and 12/25/2026; 01/02/2026 may be in January or in February, so that it is not read."""
    if first != second and first <= 12 and second <= 12:
        return None
    month, day = (second, first) if first > 12 else (first, second)
    try:
        return datetime(year, month, day, tzinfo=UTC), False
    except ValueError:
        return None


_BY_WORD: dict[str, Callable[[Any, Any], bool]] = {
    "exact": same_value,
    "set": _same_set,
    "case": _same_folded,
    "date": _same_date,
}
