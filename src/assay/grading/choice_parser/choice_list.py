"""Lists of choices at one position of a text: `B`, `(b) Paris`, `A and C`; with a following text that may retract them."""

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import NamedTuple

from assay.core.case import Choice
from assay.grading.choice_parser.wording import (
    AND,
    CLOSING,
    COMMA,
    COPULA,
    GOES_ON,
    HEDGE,
    IF_AFTER,
    LETTER,
    LINKING,
    NEGATION,
    NOUN,
    OPENING,
    OR,
    REJECTING,
    SENTENCE_ENDS,
    TAKEN_BACK,
    TAKEN_BACK_LATER,
)

_AFTER = rf"(?![{LETTER}])(?!['\u2019-][{LETTER}])(?![.,:/(]\d)(?!\s?[%€°])"
_BEFORE = rf"(?<![{LETTER}$'\u2019-])"
_BOUNDARY = re.compile(_AFTER)
_OPENED = re.compile(rf"\s*+(?:[{OPENING}]\s*+){{0,12}}")
_CLOSED = re.compile(rf"[{CLOSING}]{{0,8}}")
_LINK = re.compile(rf"\s{{0,9}}([{LINKING}]|(?=\())?\s{{0,9}}(?P<words>)[{OPENING}]{{0,8}}\s{{0,9}}")
_NEXT_LINE = re.compile(r"[ \t.,;]{0,9}\n\s{0,9}(?:[-*] )?")
_LINE_ENDS = re.compile(r"[ \t.,;]{0,9}(?:\n|\Z)")
_WORD_FOLLOWS = re.compile(rf"\s{{1,9}}[{LETTER}]")
_HEADING = re.compile(rf"\s{{1,9}}[*_]{{0,2}}[A-ZÀ-ÞЀ-Я][{LETTER}]{{2,20}}[*_]{{0,2}}:")
_OPERATOR = re.compile(r"\s{0,3}(?:[+*/=\u00d7\u00f7^]|\\(?:times|cdot|div|pm)\b|[-\u2212]\s{0,3}\d)\s{0,3}[\d$\\(\w]")
"""Makes the words before it the beginning of a calculation."""
_SENTENCE = re.compile(rf"[^{SENTENCE_ENDS}\n]{{0,300}}")
_SPACES = re.compile(r"[ \t\u00a0\u202f]+")
_LONGEST_LIST = 200
_REMARK = 160
"""Maximum characters after a choice in which it may be retracted."""
_SHORT_WORDS = frozenset("aeiouyàéèó\u0432")
"""Names that are words of some language."""


class ChoiceList(NamedTuple):
    """The choices at one position."""

    chosen: frozenset[str]
    """Empty when the text leaves several open."""
    end: int


class ChoiceMatch(NamedTuple):
    """One choice at one position."""

    choice: str
    """Empty when the name and the words belong to two choices."""
    end: int
    is_worded: bool = False
    """The text has the words of the choice, with or without its name."""


class ChoiceLookup:
    """The choices of one question, by every text that may name them."""

    def __init__(self, choices: tuple[Choice, ...]) -> None:
        self._choices = choices
        self.ids = tuple([choice.id for choice in choices])

    # Computed lazily: most answers name an id as it is spelled.

    @cached_property
    def _by_folded(self) -> dict[str, str]:
        """Map ids by their case-folded spelling."""
        return _unique((choice.id.casefold(), choice.id) for choice in self._choices)

    @cached_property
    def by_words(self) -> dict[str, str]:
        """Map ids by the words of the choice, the longest first."""
        words = _unique((plain_words(choice.text), choice.id) for choice in self._choices)
        return {text: words[text] for text in sorted(words, key=len, reverse=True) if text}

    def mentions_other(self, text: str, chosen: frozenset[str]) -> bool:
        """Tell whether the text names a choice besides these, as its id is spelled."""
        found = (match.group("id") for match in _name_anywhere(self.ids).finditer(text))
        return any(name in self.ids and name not in chosen for name in found)

    def read_list(self, text: str, at: int = 0, *, has_words: bool = True) -> ChoiceList | None:
        """Read the choices from a position on; None when there is none or the following text retracts it."""
        item = self.read_item(text, at, has_words=has_words)
        if item is None:
            return None
        items, parts = [item], [0]
        while joined := self._read_joined(text, item.end, has_words=has_words):
            item, is_comma = joined
            if COPULA.match(text, item.end):
                # `A, B and C are wrong` is about B and C, and not part of a list that begins with A.
                del items[parts[-1] or len(items) :]
                break
            parts += [len(items)] if is_comma else []
            items.append(item)
            if len(items) > _LONGEST_LIST:
                return ChoiceList(frozenset(), item.end)
        return self._finish_list(text, items)

    def _read_joined(self, text: str, at: int, *, has_words: bool) -> tuple[ChoiceMatch, bool] | None:
        """Read the choice after a comma or an `and`, and which of them it was; an id such as `E` is not the Italian word."""
        for pattern in (COMMA, AND):
            joint = pattern.match(text, at)
            item = self.read_item(text, joint.end(), has_words=has_words) if joint else None
            if joint and item:
                return item, joint.group().strip() in (",", ";")
        return None

    def _finish_list(self, text: str, items: list[ChoiceMatch]) -> ChoiceList | None:
        chosen, end = frozenset(item.choice for item in items), items[-1].end
        if REJECTING.match(text, end) or self._is_taken_back(text, end, chosen):
            return None
        is_open = "" in chosen or text[end : end + 1] in ("?", "\uff1f") or self._is_kept_open(text, end, chosen)
        return ChoiceList(frozenset() if is_open else chosen, end)

    def _is_taken_back(self, text: str, end: int, chosen: frozenset[str]) -> bool:
        """Tell whether the text retracts the choice next: `(B), but it is not correct`."""
        if TAKEN_BACK.match(text, end):
            return True
        rest = text[end : end + _REMARK].partition("\n")[0]
        later = TAKEN_BACK_LATER.search(rest)
        return later is not None and not self.mentions_other(rest[: later.start()], chosen)

    def _is_kept_open(self, text: str, end: int, chosen: frozenset[str]) -> bool:
        """Tell whether the sentence continues with another choice: `A or B`, `A unless B holds`; but not with `A, not B or C`."""
        either = OR.match(text, end)
        if (either and self.read_item(text, either.end())) or self._goes_on_below(text, end, chosen):
            return True
        sentence = _SENTENCE.match(text, end)
        rest = sentence.group() if sentence else ""
        if IF_AFTER.match(rest) and self.mentions_other(rest, chosen):
            return True
        hedge = HEDGE.search(rest)
        if hedge is None or NEGATION.search(rest, 0, hedge.start()) or self.mentions_other(rest[: hedge.start()], chosen):
            return False
        return self.mentions_other(rest[hedge.end() :], chosen)

    def _goes_on_below(self, text: str, end: int, chosen: frozenset[str]) -> bool:
        """Tell whether the next line is another choice and nothing else."""
        below = _NEXT_LINE.match(text, end)
        item = self.read_item(text, below.end()) if below else None
        return item is not None and item.choice not in chosen and _LINE_ENDS.match(text, item.end) is not None

    def read_item(self, text: str, at: int = 0, *, has_words: bool = True) -> ChoiceMatch | None:
        """Read one choice, by its name, its words or both."""
        name = _name(self.ids).match(text, at)
        by_words = self._read_opened_words(text, at) if has_words else None
        choice = self._named(name, text) if name else None
        if name is None or choice is None or (by_words and by_words.end > name.end()):
            return by_words
        return self._with_words(text, name, choice)

    def _named(self, name: re.Match[str], text: str) -> str | None:
        """Return the id of a name that stands alone and does not begin a sentence: `the answer is a river` does not name A."""
        spelled = name.group("id")
        choice = spelled if spelled in self.ids else self._by_folded.get(spelled.casefold())
        if choice is None or (choice.isdigit() and text[: name.start("id")].endswith("$") and "$" not in name.group("close")):
            return None
        is_closed = bool(name.group("close")) or not _goes_on(text, name.end(), after=spelled)
        is_name = spelled == choice and choice.isalpha() and choice.isupper() and choice.casefold() not in _SHORT_WORDS
        is_ended = is_followed_well(text, name.end()) or (spelled == choice and self._is_headed(text, name.end(), choice))
        return choice if is_closed or is_name or is_ended else None

    def _is_headed(self, text: str, at: int, choice: str) -> bool:
        """Tell whether the choice's own words follow, or a heading: `A The sale is void`, `A Explanation: …`."""
        if _HEADING.match(text, at):
            return True
        own = self._read_words(text, at + 1) if text[at : at + 1].isspace() else None
        return own is not None and own.choice == choice

    def _with_words(self, text: str, name: re.Match[str], choice: str) -> ChoiceMatch:
        """Read a name with its own words, if they follow; the words of another choice are a contradiction."""
        link = _LINK.match(text, name.end())
        found = (self._read_words(text, link.end()) or self._read_words(text, link.end("words"))) if link else None
        is_linked = bool(link and (link.group(1) or name.group("close") or text[link.start() : link.end()].strip()))
        if found is None or (found.choice != choice and not (is_linked and self._ends(text, found.end))):
            return ChoiceMatch(choice, name.end())
        if name.group("close") and link and link.group(1) == "." and COPULA.match(text, found.end):
            # `The answer is (B). London is ...`: the words begin a sentence of their own.
            return ChoiceMatch(choice, name.end())
        return ChoiceMatch(choice if found.choice == choice else "", found.end, is_worded=True)

    def _ends(self, text: str, at: int) -> bool:
        return _WORD_FOLLOWS.match(text, at) is None or OR.match(text, at) is not None

    def _read_opened_words(self, text: str, at: int) -> ChoiceMatch | None:
        """Read the words of a choice, which may begin with a bracket of their own."""
        opened = _OPENED.match(text, at)
        start = at + len(text[at : at + 99]) - len(text[at : at + 99].lstrip())
        return self._read_words(text, start) or (self._read_words(text, opened.end()) if opened else None)

    def _read_words(self, text: str, at: int) -> ChoiceMatch | None:
        folded = text[at : at + self._longest].lower()
        for words, choice in self.by_words.items():
            if folded.startswith(words) and _BOUNDARY.match(folded, len(words)) and not _OPERATOR.match(text, at + len(words)):
                closed = _CLOSED.match(text, at + len(words))
                end = closed.end() if closed else at + len(words)
                is_whole = " " in words or not _goes_on(text, end, after=text[at:end]) or is_followed_well(text, end)
                return ChoiceMatch(choice, end, is_worded=True) if is_whole else None
        return None

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.by_words), default=0) + 4


def _goes_on(text: str, at: int, *, after: str) -> bool:
    """Tell whether a word follows in the same sentence; a line break ends one, unless it wraps lower-case text."""
    follows = _WORD_FOLLOWS.match(text, at)
    if follows is None:
        return False
    between, first = follows.group()[:-1], follows.group()[-1]
    return "\n" not in between or (between.count("\n") == 1 and after.islower() and first.islower())


def is_followed_well(text: str, at: int) -> bool:
    """Tell whether the next word can follow a choice, rather than make it the beginning of something else."""
    return any(pattern.match(text, at) for pattern in (GOES_ON, COPULA, OR))


def plain_words(text: str) -> str:
    """Normalize words for comparison: case, outer punctuation and kind of spaces."""
    return _SPACES.sub(" ", text).strip(" \t\n.;,:!\u3002\u2026\"'`*_").lower()


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Drop the keys that occur more than once."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: found[0] for key, found in values.items() if len(found) == 1}


@lru_cache(maxsize=1024)
def _name(ids: tuple[str, ...]) -> re.Pattern[str]:
    opened = rf"\s*+(?:(?:[{OPENING}]|{NOUN})\s*+){{0,12}}"
    return re.compile(rf"{opened}(?P<id>{_alternatives(ids)}){_AFTER}(?P<close>[{CLOSING}]{{0,8}})", re.IGNORECASE)


@lru_cache(maxsize=1024)
def _name_anywhere(ids: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"{_BEFORE}(?P<id>{_alternatives(ids)}){_AFTER}")


def _alternatives(ids: tuple[str, ...]) -> str:
    return "|".join(re.escape(choice_id) for choice_id in sorted(ids, key=len, reverse=True))
