"""Parser of an answer's choice: lenient in form and strict in meaning, so that two readings count as none."""

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from itertools import islice
from typing import NamedTuple

from assay.core.case import Choice
from assay.grading.answer_text import without_end_marks, without_thoughts
from assay.grading.choice_wording import (
    AND,
    ANNOUNCEMENTS,
    BECAUSE,
    CLOSING,
    COMMA,
    CONCLUSION,
    CONDITION,
    COPULA,
    FINAL,
    FINAL_BEFORE,
    GOES_ON,
    HEDGE,
    IF_AFTER,
    LEAD_IN,
    LETTER,
    LINKING,
    MAYBE,
    NEGATION,
    NOUN,
    OPENING,
    OR,
    REJECTED_BEFORE,
    REJECTING,
    RETRACTED,
    RIGHT,
    RIGHT_WORDS,
    SENTENCE_ENDS,
    TAKEN_BACK,
    TAKEN_BACK_LATER,
    ChoiceAnnouncement,
    compile_pattern,
)
from assay.grading.verdict import unescape_json

_AFTER = rf"(?![{LETTER}])(?!['\u2019-][{LETTER}])(?![.,:/(]\d)(?!\s?[%€°])"
_BEFORE = rf"(?<![{LETTER}$'\u2019-])"
_BOUNDARY = re.compile(_AFTER)
# All repetitions here are bounded or possessive: answers are untrusted text, and backtracking would take quadratic time.
_OPENED = re.compile(rf"\s*+(?:[{OPENING}]\s*+){{0,12}}")
_CLOSED = re.compile(rf"[{CLOSING}]{{0,8}}")
_LIST_LINK = re.compile(rf"\s{{0,9}}([{LINKING}]|(?=\())?\s{{0,9}}(?P<words>)[{OPENING}]{{0,8}}\s{{0,9}}")
_NEXT_LINE = re.compile(r"[ \t.,;]{0,9}\n\s{0,9}(?:[-*] )?")
_LINE_ENDS = re.compile(r"[ \t.,;]{0,9}(?:\n|\Z)")
_WORD_FOLLOWS = re.compile(rf"\s{{1,9}}[{LETTER}]")
_HEADING = re.compile(rf"\s{{1,9}}[*_]{{0,2}}[A-ZÀ-ÞЀ-Я][{LETTER}]{{2,20}}[*_]{{0,2}}:")
_OPERATOR = re.compile(r"\s{0,3}(?:[+*/=\u00d7\u00f7^]|\\(?:times|cdot|div|pm)\b|[-\u2212]\s{0,3}\d)\s{0,3}[\d$\\(\w]")
"""Makes the words before it the beginning of a calculation."""
_SENTENCE = re.compile(rf"[^{SENTENCE_ENDS}\n]{{0,300}}")
_LIST_SPACES = re.compile(r"[ \t\u00a0\u202f]+")
# A longer list is an attack or a model that got stuck, not an answer.
_LONGEST_LIST = 200
_LIST_REMARK = 160
"""Maximum characters after a choice in which it may be retracted."""
# `a` and `I` in English, `e` in Italian: as names of choices they need more evidence than other letters.
_SHORT_WORDS = frozenset("aeiouyàéèó\u0432")
"""Names that are words of some language."""


class ChoiceList(NamedTuple):
    """Choices at one position."""

    chosen: frozenset[str]
    """Empty when the text leaves several open."""
    end: int


class ChoiceMatch(NamedTuple):
    """One choice at one position."""

    choice: str
    """Empty when the name and the words belong to two choices."""
    end: int
    is_worded: bool = False
    """True if the text has the words of the choice, with or without its name."""


class ChoiceLookup:
    """Choices of one question, by every text that may name them."""

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
        # The longest first, so that `not liable in tort` is not read as the choice `not liable`.
        return {text: words[text] for text in sorted(words, key=len, reverse=True) if text}

    def mentions_other(self, text: str, chosen: frozenset[str]) -> bool:
        """Return whether the text names a choice besides these, as its id is spelled."""
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
        # None and not an empty choice: text that rejects B says nothing about A, and another statement may still decide.
        if REJECTING.match(text, end) or self._is_taken_back(text, end, chosen):
            return None
        # A question or an open alternative is not a choice; reading one would credit a model for not answering.
        is_open = "" in chosen or text[end : end + 1] in ("?", "\uff1f") or self._is_kept_open(text, end, chosen)
        return ChoiceList(frozenset() if is_open else chosen, end)

    def _is_taken_back(self, text: str, end: int, chosen: frozenset[str]) -> bool:
        """Return whether the text retracts the choice next: `(B), but it is not correct`."""
        if TAKEN_BACK.match(text, end):
            return True
        rest = text[end : end + _LIST_REMARK].partition("\n")[0]
        # Only up to the next choice: `(B), which is better than (A), which is wrong` takes back A.
        later = TAKEN_BACK_LATER.search(rest)
        return later is not None and not self.mentions_other(rest[: later.start()], chosen)

    def _is_kept_open(self, text: str, end: int, chosen: frozenset[str]) -> bool:
        """Return whether the sentence continues with another choice: `A or B`, `A unless B holds`; but not with `A, not B or C`."""
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
        """Return whether the next line is another choice and nothing else."""
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
        # `$5` is a price; `$5$` is the choice 5 in LaTeX.
        if choice is None or (choice.isdigit() and text[: name.start("id")].endswith("$") and "$" not in name.group("close")):
            return None
        is_closed = bool(name.group("close")) or not _goes_on(text, name.end(), after=spelled)
        is_name = spelled == choice and choice.isalpha() and choice.isupper() and choice.casefold() not in _SHORT_WORDS
        is_ended = is_followed_well(text, name.end()) or (spelled == choice and self._is_headed(text, name.end(), choice))
        return choice if is_closed or is_name or is_ended else None

    def _is_headed(self, text: str, at: int, choice: str) -> bool:
        """Return whether the choice's own words follow, or a heading: `A The sale is void`, `A Explanation: …`."""
        if _HEADING.match(text, at):
            return True
        own = self._read_words(text, at + 1) if text[at : at + 1].isspace() else None
        return own is not None and own.choice == choice

    def _with_words(self, text: str, name: re.Match[str], choice: str) -> ChoiceMatch:
        """Read a name with its own words, if they follow; the words of another choice are a contradiction."""
        link = _LIST_LINK.match(text, name.end())
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
        # lower() and not casefold(): casefold may change the length, and offsets have to stay those of the text.
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
    """Return whether a word follows in the same sentence; a line break ends one, unless it wraps lower-case text."""
    follows = _WORD_FOLLOWS.match(text, at)
    if follows is None:
        return False
    between, first = follows.group()[:-1], follows.group()[-1]
    return "\n" not in between or (between.count("\n") == 1 and after.islower() and first.islower())


def is_followed_well(text: str, at: int) -> bool:
    """Return whether the next word can follow a choice, rather than make it the beginning of something else."""
    return any(pattern.match(text, at) for pattern in (GOES_ON, COPULA, OR))


def plain_words(text: str) -> str:
    """Normalize words for comparison: case, outer punctuation and kind of spaces."""
    return _LIST_SPACES.sub(" ", text).strip(" \t\n.;,:!\u3002\u2026\"'`*_").lower()


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Drop the keys that occur more than once."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    # Two choices with the same words cannot be distinguished by them.
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


_VALUE = r"""\s*:\s*(\[[^][]{0,2000}\]|"(?:[^"\\]|\\.){0,2000}+"|'(?:[^'\\]|\\.){0,2000}+'|-?[\w.]+)"""
# Prompts ask for a JSON object, but models add text, cut it off or use other quotes, so members are searched and not parsed.
_FIELDS = tuple(
    re.compile(rf"""(?<!\\){quote}(?:{names}){quote}{_VALUE}""", re.IGNORECASE | re.DOTALL)
    for names in (
        "(?:final_|correct_|selected_|chosen_)?answers?",
        "(?:(?:final_|correct_|selected_|chosen_)?(?:choice|option|letter))|antwort|r.ponse|risposta|respuesta|答案|ответ",
    )
    for quote in ('"', "'")
)
"""Members that may hold the answer; the first kind that is present counts."""
_OBJECT_PART = re.compile(r""""(?:[^"\\]|\\.)*+("|\Z)|[{}]""", re.DOTALL)
"""A string or a brace in an object; a truncated string has no end."""
_ITEM = re.compile(r""""((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'|([^\s,\[\]]+)""", re.DOTALL)
_LATEX = re.compile(r"\\(?:text|textbf|textit|textrm|mathbf|mathrm|mathsf|mathit|bm|boldsymbol)\s{0,9}(?=\{)")
_SPACES = re.compile(r"[ \t\u00a0\u202f]{2,}|[\u00a0\u202f]")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {ord("\u0130"): "I"}
"""Full-width letters to plain ones, and the one capital whose lower case has two characters, so that offsets stay valid."""
_PART_OF_WORD = re.compile(rf"[{LETTER}]{{2}}")
_BULLET = re.compile(r"[ \t]*(?:(?:[-•>#]{1,6}|[∴⇒→➡]|=>|->)[ \t]+)?")
_END = re.compile(r"[\s.!:\u3002*_`\"')\]]*\Z")
_LINK = re.compile(rf"[ \t]*[{LINKING}][*_]{{0,2}}[ \t]*")
_SENTENCE_START = re.compile(r"[.!?](?=\s)\s*|[\u3002\uff01\uff1f\n]\s*")
_SENTENCE_END = re.compile(r"[.!?;:\n\u3002]\s+|\n")
_UNKNOWN_LAST = re.compile(r"\banswer is:? [*_$\\(\[{]{0,6}(?P<id>[A-Z])[*_$\\)\]}.]{0,6}\s*\Z")
"""A last sentence that states the answer, which may be none of the choices."""
_CAPITAL = re.compile("[A-Z]")
_NAMED_LAST = re.compile(r"\(\s?(?P<name>(?:option |choice |answer )?[^()\s]{1,12}\s?\))[\s.!*_]{0,9}\Z", re.IGNORECASE)
"""A name in brackets at the end of a text."""
_NAMED = re.compile(r"\(\s?(?:option |choice |answer )?(?P<id>[^()\s]{1,12})\s?\)", re.IGNORECASE)
_REMARK = (",", ";", ".", "(", "\u2013", "\u2014")
_SHORTEST_BEGINNING = 12
"""Minimum letters of a choice's words that identify it."""
_CLAUSE = 200
"""Maximum characters before `is correct` that are read."""

_MAX_STATEMENTS = 2000
"""Maximum statements that are read; a text with more leaves everything open."""

ChosenIds = frozenset[str]
"""Chosen ids; empty when the text leaves several open."""


class _ChoiceStatement(NamedTuple):
    """One statement of the answer in a text."""

    reading: ChosenIds
    start: int
    end: int
    is_final: bool = False
    """True if the text marks it as final."""
    is_sentence: bool = False
    """It says `the answer is`, and is not a label such as `Answer:`."""


def read_choices(answer: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Find the ids of the chosen choices in the question's order; empty for none, an unknown one or ambiguous ones."""
    options = ChoiceLookup(choices)
    chosen = _reading(_cleaned(answer), options)
    return tuple([choice_id for choice_id in options.ids if choice_id in chosen])


def _cleaned(answer: str) -> str:
    # A choice that was considered while thinking is not the answer.
    text = without_thoughts(without_end_marks(answer)) if "<" in answer or "[" in answer else answer
    if not text.isascii():
        text = text.translate(_WIDE)
    if "\\" in text:
        text = _LATEX.sub("", text)
    return text if "  " not in text and text.isascii() else _SPACES.sub(" ", text)


def _reading(text: str, options: ChoiceLookup) -> ChosenIds:
    """Read an answer; a member of an object counts before prose, except for a last sentence after the object."""
    for pattern in _FIELDS if ":" in text else ():
        values, end = set[ChosenIds](), 0
        for match in pattern.finditer(text):
            values.add(_of_field(match.group(1), options))
            end = match.end()
        if values:
            # A model may revise the object that it began with; its last sentence says what it means.
            closing = _closing_of(_after_object(text, end), options)
            return _only(values) if closing is None else closing
    return _of_words(text, options)


def _after_object(text: str, member_end: int) -> str:
    """Return the text after a member's object; empty when the object does not end, since the rest is part of it."""
    depth = 1
    for part in _OBJECT_PART.finditer(text, member_end):
        if part.group(1) == "":
            return ""
        depth += {"{": 1, "}": -1}.get(part.group(), 0)
        if depth == 0:
            return text[part.end() :]
    return ""


def _closing_of(text: str, options: ChoiceLookup) -> ChosenIds | None:
    return _closing(text, _statements(text, options)) if text.strip() else None


def _only(readings: set[ChosenIds]) -> ChosenIds:
    # Two different readings count as none: any rule to prefer one would favour some models over others.
    return next(iter(readings)) if len(readings) == 1 else frozenset()


def _of_field(value: str, options: ChoiceLookup) -> ChosenIds:
    if not value.startswith("["):
        return _of_words(unescape_json(value[1:-1]) if value[0] in "\"'" else value, options)
    items = [next(filter(None, match.groups()), "") for match in _ITEM.finditer(value[1:-1])]
    # One item that cannot be read makes the whole list unreadable; dropping it would turn a wrong answer into a right one.
    chosen = [_whole(unescape_json(item), options) or frozenset() for item in items]
    return frozenset().union(*chosen) if all(chosen) else frozenset()


def _whole(text: str, options: ChoiceLookup) -> ChosenIds | None:
    """Read a text that consists of choices only: `B`, `(b)`, `Paris.`, `A, C`; None for any other text."""
    if text in options.ids:
        return frozenset({text})
    tokens = text.replace(",", " ").split() if len(text) < _CLAUSE else []
    if len(tokens) > 1 and "\n" not in text.strip() and all(token in options.ids for token in tokens):
        return frozenset(tokens)
    listed = options.read_list(text)
    return listed.chosen if listed and _END.match(text, listed.end) else None


def _of_words(text: str, options: ChoiceLookup) -> ChosenIds:
    whole = _whole(text, options)
    if whole is not None:
        return whole
    # `The answer is F` with choices A to D is a choice that does not exist, regardless of what was named before.
    unknown = _UNKNOWN_LAST.search(text, max(0, len(text) - _CLAUSE))
    if unknown and unknown.group("id") not in options.ids and all(_CAPITAL.fullmatch(choice_id) for choice_id in options.ids):
        return frozenset()
    statements = _statements(text, options)
    if not statements:
        return _only(_of_lines(text, options)) or _conclusion(text, options)
    closing = _closing(text, statements)
    if closing is not None:
        return closing
    final = {statement.reading for statement in statements if statement.is_final}
    # "Wait" after the last statement announces another answer, which was cut off or could not be read.
    if RETRACTED.search(text, max(statement.end for statement in statements)):
        return frozenset()
    # Several lines that begin with a name list the choices; a single one is an answer.
    lines = _of_lines(text, options)
    return _only(final or {statement.reading for statement in statements} | (lines if len(lines) == 1 else set()))


def _closing(text: str, statements: list[_ChoiceStatement]) -> ChosenIds | None:
    """Read the last sentence's statement, regardless of the text before it; None without one, or when it is conditional."""
    closing = [statement for statement in statements if statement.is_sentence and _END.match(text, statement.end)]
    if not closing:
        return None
    start = min(statement.start for statement in closing)
    sentence = max((match.end() for match in _SENTENCE_START.finditer(text, 0, start)), default=0)
    # "If the contract is void, the answer is B" leaves open whether it is.
    if CONDITION.match(text, sentence, start):
        return None
    return _only({statement.reading for statement in closing})


def _conclusion(text: str, options: ChoiceLookup) -> ChosenIds:
    """Read the choice at the very end when no other statement counts: `It is B.`, `This matches option B.`, `London (B)`."""
    stripped = text.rstrip()
    tail = stripped[-_CLAUSE:]
    start = max((match.end() for match in _SENTENCE_START.finditer(tail)), default=0)
    if CONDITION.match(tail, start) or MAYBE.search(tail, start):
        return frozenset()
    for match in CONCLUSION.finditer(tail, start):
        listed = options.read_list(tail, match.end())
        if listed and _END.match(tail, listed.end) and not REJECTED_BEFORE.search(tail[: match.start()]):
            return listed.chosen
    return _named_after_words(text, tail, options)


def _named_after_words(text: str, tail: str, options: ChoiceLookup) -> ChosenIds:
    """Read the choice of `London (B)` at the end of a text that names no other in brackets."""
    match = _NAMED_LAST.search(tail)
    item = options.read_item(tail, match.start("name")) if match else None
    before = plain_words(tail[: match.start()]) if match else ""
    words = [words for words, choice in options.by_words.items() if item and choice == item.choice]
    is_own = any(re.search(rf"(?<![{LETTER}]){re.escape(text_of_choice)}\Z", before) for text_of_choice in words)
    if item is None or not item.choice or not is_own or NEGATION.search(before):
        return frozenset()
    # The weakest sign of all, so it counts only where nothing else in the text could be meant.
    named = {match.group("id") for match in islice(_NAMED.finditer(text), _MAX_STATEMENTS)}
    return frozenset() if named & set(options.ids) - {item.choice} else frozenset({item.choice})


def _statements(text: str, options: ChoiceLookup) -> list[_ChoiceStatement]:
    """Find every statement of the answer in a text."""
    lower = text.lower()
    found = [
        statement
        for announcement in ANNOUNCEMENTS
        # A search for a substring spares nearly all of these patterns.
        if announcement.trigger in lower
        for statement in _announced(text, lower, announcement, options)
    ]
    for pattern in FINAL:
        lists = ((match, options.read_list(text, match.end())) for match in islice(pattern.finditer(text), _MAX_STATEMENTS))
        found += [_ChoiceStatement(listed.chosen, match.start(), listed.end, is_final=True) for match, listed in lists if listed]
    return found + _confirmed(text, lower, options) if any(word in lower for word in RIGHT_WORDS) else found


def _announced(text: str, lower: str, announcement: ChoiceAnnouncement, options: ChoiceLookup) -> list[_ChoiceStatement]:
    found: list[_ChoiceStatement] = []
    offset = lower.find(announcement.trigger)
    for _ in range(_MAX_STATEMENTS):
        if offset < 0:
            return found
        found += _announced_at(text, offset, announcement, options)
        offset = lower.find(announcement.trigger, offset + 1)
    # Too many to read each, but the last sentence still counts.
    last = _announced_at(text, lower.rfind(announcement.trigger), announcement, options)
    return [_ChoiceStatement(frozenset(), 0, len(text), is_final=True), *last]


def _announced_at(text: str, offset: int, announcement: ChoiceAnnouncement, options: ChoiceLookup) -> list[_ChoiceStatement]:
    """Read the announcement at one position; returns at most one statement."""
    match = compile_pattern(announcement.pattern).match(text, offset)
    before = text[max(0, offset - 60) : offset]
    listed = options.read_list(text, match.end()) if match and _is_meant(before, announcement) else None
    if match is None or listed is None or ("\n" in match.group() and _heads_list(text, listed, options)):
        return []
    if announcement.after and not compile_pattern(announcement.after).match(text, listed.end):
        return []
    # A label such as `Answer:` may head a list of all choices, while a sentence states one.
    is_final, is_label = FINAL_BEFORE.search(before) is not None, match.groupdict().get("label") is not None
    return [_ChoiceStatement(listed.chosen, offset, listed.end, is_final, is_sentence=not is_label)]


def _heads_list(text: str, listed: ChoiceList, options: ChoiceLookup) -> bool:
    """Return whether the next line begins with another choice: `each option:` is followed by all of them."""
    start = text.find("\n", listed.end)
    below = text[start + 1 : start + _CLAUSE].partition("\n")[0] if start >= 0 else ""
    line = _of_line(below, options, is_first=False)
    return line is not None and bool(listed.chosen) and line.choice not in listed.chosen


def _is_meant(before: str, announcement: ChoiceAnnouncement) -> bool:
    if _PART_OF_WORD.search(before[-1:] + announcement.trigger[0]):
        return False
    if announcement.before and not compile_pattern(announcement.before).search(before):
        return False
    return REJECTED_BEFORE.search(before) is None


def _confirmed(text: str, lower: str, options: ChoiceLookup) -> list[_ChoiceStatement]:
    """Find confirmations: `B is correct`, `Therefore, A and C are right.`"""
    found: list[_ChoiceStatement] = []
    for match in islice(RIGHT.finditer(lower), _MAX_STATEMENTS):
        if _PART_OF_WORD.match(lower[match.start() - 1 : match.start() + 1]):
            continue
        # A bounded piece before each confirmation, or a text full of them would take quadratic time.
        clause = text[max(0, match.start() - _CLAUSE) : match.start()].rstrip(" \u2014-")
        sentence = _SENTENCE_END.split(clause)[-1]
        chosen = _subject(sentence, options) or _subject(sentence.rsplit(",", 1)[-1], options)
        if chosen is not None:
            found.append(_ChoiceStatement(chosen, match.start(), match.end()))
    return found


def _subject(clause: str, options: ChoiceLookup) -> ChosenIds | None:
    lead_in = LEAD_IN.match(clause)
    listed = options.read_list(clause, lead_in.end() if lead_in else 0, has_words=False)
    return listed.chosen if listed and not clause[listed.end :].strip() else None


class _ChoiceLine(NamedTuple):
    """A line that begins with the name of a choice."""

    choice: str
    reading: ChosenIds | None
    """None when the line discusses the choice without choosing it."""
    is_bare: bool
    """True if the line is the name and nothing else."""


def _of_lines(text: str, options: ChoiceLookup) -> set[ChosenIds]:
    """Read lines that are a name, with or without its choice's words, and a first line that gives a reason for its name.

    Several lines that begin with names discuss the choices: one with words then counts only as a paragraph before them.
    """
    lines = text.strip().splitlines()
    if len(lines) > _MAX_STATEMENTS:
        return set()
    read = [_of_line(line, options, is_first=number == 0) for number, line in enumerate(lines)]
    is_list = len({line.choice for line in read if line}) > 1
    chosen_lines = [(number, line) for number, line in enumerate(read) if line and line.reading is not None]
    if is_list and chosen_lines and _continues_list(read, chosen_lines[-1][0], options):
        chosen_lines.pop()
    is_first_apart = len(lines) > 1 and not lines[1].strip()
    # Lines that each begin with a name and continue are the options repeated, or a discussion of them.
    if is_list and not any(line.is_bare or (number == 0 and is_first_apart) for number, line in chosen_lines):
        return set()
    return {line.reading for _, line in chosen_lines if line.reading is not None}


def _continues_list(read: list[_ChoiceLine | None], number: int, options: ChoiceLookup) -> bool:
    """Return whether the last line is the name after that of the line above: a truncated list."""
    line, above = read[number], read[number - 1] if number else None
    if (
        line is None
        or above is None
        or above.is_bare
        or number != len(read) - 1
        or not {line.choice, above.choice} <= set(options.ids)
    ):
        return False
    is_discussed = any(other and other.choice == line.choice for other in read[:number])
    return not is_discussed and options.ids.index(line.choice) == options.ids.index(above.choice) + 1


def _of_line(line: str, options: ChoiceLookup, *, is_first: bool) -> _ChoiceLine | None:
    bullet = _BULLET.match(line)
    start = bullet.end() if bullet else 0
    item = options.read_item(line, start, has_words=False)
    if item is None:
        return None
    if not item.choice:
        return _ChoiceLine("", frozenset(), is_bare=False)
    if not is_first and line.rstrip(" *_").endswith(":"):
        return _ChoiceLine(item.choice, None, is_bare=False)
    is_bare = _END.match(line, item.end) is not None and line.count("(") <= line.count(")")
    if is_bare or (is_first and BECAUSE.match(line, item.end)) or _is_own(line[item.end :], item, options):
        return _ChoiceLine(item.choice, frozenset({item.choice}), is_bare=is_bare and not item.is_worded)
    listed = options.read_list(line, start)
    chosen = listed.chosen if listed and _END.match(line, listed.end) else None
    return _ChoiceLine(item.choice, chosen, is_bare=chosen is not None and len(chosen) > 1)


def _is_own(rest: str, item: ChoiceMatch, options: ChoiceLookup) -> bool:
    """Return whether a line continues after its choice's words without retracting them, or has enough of their beginning."""
    if item.is_worded:
        remark = rest.lstrip()
        is_remark = remark[:1] in _REMARK and not REJECTING.match(remark.lstrip(" ,;.(\u2013\u2014"))
        return is_remark or BECAUSE.match(rest) is not None
    link = _LINK.match(rest)
    beginning = plain_words(rest[link.end() :]) if link else ""
    # Shorter beginnings, such as `The court`, are shared by several choices.
    if len(beginning) < _SHORTEST_BEGINNING:
        return False
    return [choice for words, choice in options.by_words.items() if words.startswith(beginning)] == [item.choice]
