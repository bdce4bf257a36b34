"""Small checks that contracts consist of: a value and its path in, findings out."""

import difflib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, Self

from msgspec.structs import replace

from assay.core.issue import MAX_LISTED, Finding, Guess, Issue, Path, Severity, path_text
from assay.core.report import Outcome, RecordCounts
from assay.core.strict_json import ParsedDocument, ParseProblem

_TYPE_NAMES = {str: "a string", bool: "a boolean", int: "an integer", float: "a number", dict: "an object", list: "an array"}
_NUL = "\x00"
_HOLDS_JSON = re.compile(r"\s*[\[{]")
_LONGEST_NUMBER = 40
"""Characters of a text that may be a number in quotes."""
MAX_GUESSES = 20
"""Unknown names of one object that are compared with known ones."""
MAX_FILE_GUESSES = 2_000
"""Guesses at names that differ, in one file; a guess costs 50 microseconds, and a file may hold a million names."""
MAX_CHARACTERS = 80
"""Of a word that is compared with others."""
MAX_WORDS = 6
"""Words that a hint names."""
# batch_v1 forbids control characters without listing them: C0 without tab and line breaks, DEL and C1.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CONTROL_IN_NAME = re.compile("[\x00-\x1f\x7f-\x9f]")


class FindingList(list[Finding]):
    """Findings of one row, or of one document: the first ones in full, all of them counted."""

    def __init__(self, whole: str = "the document", *, required: Collection[str] = (), lists_errors: bool = True) -> None:
        """Start empty; `required` names the fields that cannot be left out instead of being null.

        Without `lists_errors` errors are only counted, which saves the time of their messages.
        """
        super().__init__()
        self._lists_errors = lists_errors
        self.unlisted: Counter[tuple[str, Severity]] = Counter()
        """Codes and severities of the findings that are counted only."""
        self._whole = whole
        self._required = required
        self._listed = {"error": 0, "warning": 0}

    def append(self, finding: Finding) -> None:
        """Add a finding; beyond the first ones of its severity, only its code is counted."""
        # One record may hold a million bad values. Further ones are counted by code, so that no total is wrong.
        if self._listed[finding.severity] < (MAX_LISTED if self._lists_errors or finding.severity == "warning" else 0):
            self._listed[finding.severity] += 1
            super().append(finding)
        else:
            self.unlisted[finding.code, finding.severity] += 1

    def extend(self, findings: Iterable[Finding]) -> None:
        """Add findings, with those that are counted only."""
        for finding in findings:
            self.append(finding)
        if isinstance(findings, FindingList):
            self.unlisted.update(findings.unlisted)

    def __iadd__(self, findings: Iterable[Finding]) -> Self:  # type: ignore[override, misc]  # a list takes any value
        self.extend(findings)
        return self

    def discard(self, is_wrong: Callable[[Finding], bool]) -> None:
        """Remove listed findings."""
        kept = [finding for finding in self if not is_wrong(finding)]
        self.clear()
        self._listed = {"error": 0, "warning": 0}
        self.extend(kept)

    def add(
        self,
        code: str,
        path: Path,
        message: str,
        *,
        hint: str = "",
        on_key: bool = False,
        parameter: str = "",
        guess: Guess | None = None,
    ) -> None:
        """Add one error; a similar name of `guess` is a better hint than `hint`."""
        self.append(Finding(code, path, message, hint, on_key=on_key, parameter=parameter, guess=guess))

    def warn(
        self, code: str, path: Path, message: str, *, hint: str = "", on_key: bool = False, guess: Guess | None = None
    ) -> None:
        """Add a warning, which does not make the row invalid."""
        self.append(Finding(code, path, message, hint, severity="warning", on_key=on_key, guess=guess))

    def missing(self, path: Path, *, hint: str = "", members: Iterable[str] = (), known: Collection[str] = ()) -> None:
        """Report that a required field is absent; one of the members that are not `known` may be the field, misspelled."""
        if self._lists_errors:
            guess = guess_misspelling(str(path[-1]), members, known)
            self.add("missing_required_field", path, f"{name_of(path)} is required", hint=hint, guess=guess)
        else:
            self.unlisted["missing_required_field", "error"] += 1

    def wrong_type(self, path: Path, expected: str, value: object, *, like: str = "") -> None:
        """Report a value of another JSON type; `like` is an example of what is expected."""
        name = name_of(path) if path else self._whole
        hint = retype_hint(expected, value, like=like)
        if value is None and path and path[-1] not in self._required:
            # "Write it like ..." would suggest inventing a value for a field that may be absent.
            hint = f"leave {'the field' if isinstance(path[-1], str) else 'it'} out instead of writing null"
        self.add("invalid_field_type", path, f"{name} must be {expected}, not {type_name(value)}", hint=hint)

    @property
    def has_errors(self) -> bool:
        """Return whether one of the findings is an error."""
        return self._listed["error"] > 0 or (not self._lists_errors and any(severity == "error" for _, severity in self.unlisted))


def type_name(value: object) -> str:
    """Return the JSON name of a value's type, with its article."""
    return "null" if value is None else _TYPE_NAMES.get(type(value), "a value that JSON does not have")


def retype_hint(expected: str, value: object, *, like: str = "") -> str:
    """Describe how to write the value as the expected type, or give an example; no text is repeated, since it may be a secret."""
    match expected, value:
        # A column of a table often holds JSON as text.
        case (("an object" | "an array"), str()) if _HOLDS_JSON.match(value):
            return "write the value itself, not a text that holds it"
        case "an array", str() | int() | float() if not like and type(value) is not bool:
            return "put it into a list, also where it is the only one"
        case "a string", bool() | int() | float() if not like:
            return f"put it in quotes: {_quoted(value)}"
        case "a string", [str()]:
            return "write the text itself, not a list with it"
        case (("an integer" | "a number"), str()) if _is_number(value):
            return "leave the quotes out"
        case "an integer", float() if value.is_integer():
            return "leave the fraction out"
        case _:
            return f"write it like {like}" if like else ""


def _quoted(value: float) -> str:
    """Quote a number or a boolean as a JSON text."""
    return f'"{json.dumps(value)}"' if type(value) is not int else f'"{value}"' if value.bit_length() < 100 else '"123"'


def _is_number(text: str) -> bool:
    try:
        return len(text) < _LONGEST_NUMBER and math.isfinite(float(text))
    except ValueError:
        return False


def name_of(path: Path) -> str:
    """Name a value in messages: its path inside the record, such as `input.prompt` or `tags[1]`."""
    if path[:1] in (("records",), ("cases",)) and len(path) > 1:
        return path_text(path[2:]) or "the record"
    return path_text(path) or "the document"


def object_at(found: FindingList, value: object, path: Path, *, like: str = "") -> dict[str, object] | None:
    """Return the value as an object, or report another type and return None; `like` is an example of one."""
    if type(value) is dict:
        return value
    found.wrong_type(path, "an object", value, like=like)
    return None


def array_at(found: FindingList, value: object, path: Path, *, like: str = "") -> list[object] | None:
    """Return the value as an array, or report another type and return None; `like` is an example of one that holds objects."""
    if type(value) is list:
        return value
    found.wrong_type(path, "an array", value, like=like)
    return None


def string_at(
    found: FindingList, value: object, path: Path, *, low: int = 0, high: int | None = None, like: str = ""
) -> str | None:
    """Return the value as a string of `low` to `high` characters, or report it and return None."""
    if type(value) is not str:
        found.wrong_type(path, "a string", value, like=like)
        return None
    if len(value) < low:
        empty = "must not be empty" if not value else f"has {len(value):,} characters; the minimum is {low:,}"
        found.add("value_out_of_range", path, f"{name_of(path)} {empty}")
        return None
    if high is not None and len(value) > high:
        found.add("string_too_long", path, f"{name_of(path)} has {len(value):,} characters; the limit is {high:,}")
        return None
    return value


def filled_at(found: FindingList, value: object, path: Path) -> str | None:
    """Return the value as a string that is not blank, or report it and return None."""
    text = string_at(found, value, path)
    if text is not None and not text.strip():
        found.add("value_out_of_range", path, f"{name_of(path)} must not be {'blank' if text else 'empty'}")
        return None
    return text


def integer_at(found: FindingList, value: object, path: Path, *, low: int, high: int) -> int | None:
    """Return the value as an integer from `low` to `high`, or report it and return None; true and 2000.0 are not integers."""
    if type(value) is not int:
        found.wrong_type(path, "an integer", value)
        return None
    if not low <= value <= high:
        found.add("value_out_of_range", path, f"{name_of(path)} is {shown_integer(value)}; allowed is {low:,} to {high:,}")
        return None
    return value


def shown_integer(value: int) -> str:
    """Format an integer, unless its digits are too many for a message."""
    # Decimal digits of a huge integer take quadratic time, and Python refuses more than 4,300 of them.
    return f"{value:,}" if value.bit_length() < 100 else "a very large number"


def word_at(found: FindingList, value: object, path: Path, *, words: Collection[str]) -> str | None:
    """Return the value as one of `words`, or report it with the nearest one and return None."""
    if type(value) is not str:
        quoted = [f'"{word}"' for word in words] if len(words) <= MAX_WORDS else []
        found.wrong_type(path, "a string", value, like=" or ".join(filter(None, (", ".join(quoted[:-1]), *quoted[-1:]))))
        return None
    if value not in words:
        allowed = ", ".join(words)
        found.add(
            "invalid_enum_value", path, f"{name_of(path)} is {short(value)}; allowed: {allowed}", guess=guess_at(value, words)
        )
        return None
    return value


class UnknownField(NamedTuple):
    """A member that the contract does not name."""

    name: str
    message: str
    guess: Guess | None


def unknown_members(value: Mapping[str, object], known: Collection[str]) -> Iterator[UnknownField]:
    """Yield the members that are not in `known`."""
    unknown = (name for name in value if name not in known)
    for number, name in enumerate(unknown):
        # No user reads a hundred guesses.
        yield UnknownField(name, f"{short(name)} is not a known field", guess_at(name, known) if number < MAX_GUESSES else None)


def guess_at(word: str, known: Iterable[str]) -> Guess:
    """Ask which known word is meant: `did you mean 'prompt'?`."""
    # difflib takes quadratic time in the length of the words.
    return Guess(word[:MAX_CHARACTERS], tuple(known))


def guess_misspelling(field: str, members: Iterable[str], known: Collection[str]) -> Guess | None:
    """Ask whether a missing field is one of the unknown members: `is it written as 'promt'?`; None without such a member."""
    unknown = tuple(islice((name[:MAX_CHARACTERS] for name in members if name not in known), MAX_GUESSES))
    return Guess(field, unknown, "is it written as {!r}?") if unknown else None


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'prompt'?`; empty without a similar word."""
    return _answer(guess_at(word, known))


class HintWriter:
    """Writer of the hints of one file: compares names, up to a number of guesses."""

    def __init__(self) -> None:
        self._answers: dict[Guess, str] = {}

    def hint(self, finding: Finding) -> str:
        """Return the similar name as a question, if there is one, and the finding's own hint otherwise."""
        guess = finding.guess
        if guess is None:
            return finding.hint
        if guess not in self._answers:
            if len(self._answers) >= MAX_FILE_GUESSES:
                return finding.hint
            self._answers[guess] = _answer(guess)
        return self._answers[guess] or finding.hint


def hint_of(finding: Finding) -> str:
    """Return the hint of a single finding."""
    return HintWriter().hint(finding)


def _answer(guess: Guess) -> str:
    close = _nearest(guess.word, guess.among)
    return guess.question.format(close) if close else ""


@lru_cache(4096)
def _nearest(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if not close:
        folded = word.strip().casefold()
        close = [candidate for candidate in known if candidate.casefold() == folded]
    return close[0] if close else ""


def short(text: str) -> str:
    """Quote a text, cut to a length that fits into a message."""
    # A lone surrogate in a message could not be written to a terminal or a file.
    return repr(text if len(text) <= 60 else text[:57] + "...").encode("utf-8", "replace").decode("utf-8")


def strings_in(value: object, path: Path) -> Iterator[tuple[str, Path, bool]]:
    """Yield every string inside a value with its path; True marks a member's name."""
    if type(value) is str:
        yield value, path, False
    elif type(value) is dict:
        for key, member in value.items():
            yield key, (*path, key), True
            yield from strings_in(member, (*path, key))
    elif type(value) is list:
        for index, member in enumerate(value):
            yield from strings_in(member, (*path, index))


def check_nul(found: FindingList, value: object, path: Path) -> None:
    """Report strings with U+0000, which every contract forbids."""
    if not _has_nul(value):
        return
    for text, where, on_key in strings_in(value, path):
        if _NUL in text:
            found.add(
                "invalid_encoding", where, f"{name_of(where)} holds a NUL character (U+0000)", hint="remove it", on_key=on_key
            )


def _has_nul(value: object) -> bool:
    """Return whether a string inside a value holds U+0000; hardly any does, and a search without paths costs a quarter."""
    if type(value) is str:
        return _NUL in value
    if type(value) is dict:
        return _NUL in "".join(value) or any(map(_has_nul, value.values()))
    return type(value) is list and any(map(_has_nul, value))


def check_unique(found: FindingList, value: object, path: Path, first: dict[str, int]) -> None:
    """Report an id that is used twice in a list; `path` is that of the id, `cases[3].id`, and `first` has the index of each."""
    index = path[-2]
    if type(value) is not str or not isinstance(index, int):
        return
    earlier = first.setdefault(value, index)
    if earlier != index:
        message = f"id {short(value)} was used by {path_text((*path[:-2], earlier))}"
        found.add("duplicate_record_id", path, message, hint="give each one an id of its own")


def check_controls(found: FindingList, text: str, path: Path, *, one_line: bool = False, on_key: bool = False) -> None:
    """Report control characters except tab and line breaks; in a one-line text also these."""
    match = (_CONTROL_IN_NAME if one_line else _CONTROL).search(text)
    if match:
        where = f"{name_of(path)} holds the control character U+{ord(match.group()):04X} at position {match.start()}"
        found.add("invalid_encoding", path, where, hint="remove it or replace it by a space", on_key=on_key)


def check_flaws(found: FindingList, document: ParsedDocument, path: Path, *, whole: str = "") -> None:
    """Report the problems of the text itself below `path`; drops findings on the range of numbers that were not read.

    `whole` is the hint on a second value: the form of the contract's one document.
    """
    if document.flaws:
        flaws = document.flaws
        if whole:
            flaws = tuple(replace(flaw, hint=whole) if flaw.kind == "second_value" else flaw for flaw in flaws)
        add_flaws(found, flaws, path)
        found.unlisted.update({(code, "error"): number for code, number in document.more_flaws.items()})


def add_flaws(found: FindingList, flaws: Iterable[ParseProblem], path: Path) -> None:
    """Report some problems of a document's text, as `check_flaws` does."""
    listed = list(flaws)
    # The parser put 0 in the place of a number that does not fit, and the rules must not complain about that 0.
    unread = {("value_out_of_range", (*path, *flaw.path)) for flaw in listed if flaw.code == "value_out_of_range"}
    if unread:
        found.discard(lambda finding: finding.severity == "error" and (finding.code, finding.path) in unread)
    for flaw in listed:
        where = (*path, *flaw.path)
        message = f"{name_of(where)} {flaw.message}" if flaw.kind == "surrogate" else flaw.message
        found.append(Finding(flaw.code, where, message, flaw.hint, offset=flaw.offset))


def depth_of(value: object, limit: int) -> int:
    """Return the nesting of containers, counted no further than `limit` + 1."""
    depth = 0
    level = [value]
    # Level by level, because recursion on hostile depth would end in a RecursionError.
    while depth <= limit and (containers := [member for member in level if type(member) is dict or type(member) is list]):
        depth += 1
        level = [member for container in containers for member in (container.values() if type(container) is dict else container)]
    return depth


NO_ROWS = Issue(code="empty_dataset", severity="warning", message="the file has no rows")


def add_used_id(found: FindingList, record_id: str, path: Path, *, first: str) -> None:
    """Report that the row `first` has the same id."""
    message = f"id {short(record_id)} was used by {first}"
    found.add("duplicate_record_id", path, message, hint="ids are unique in a file; keep one of the rows")


def outcome_of(counts: RecordCounts) -> Outcome:
    """Return the outcome: a file is rejected only when all of its rows are."""
    if not counts.rejected_records:
        return "accepted"
    return "accepted_with_record_errors" if counts.accepted_records else "rejected"
