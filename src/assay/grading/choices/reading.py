"""Choices in the words of an answer, read leniently in form and strictly in meaning: two readings are none."""

import re
from itertools import islice
from typing import NamedTuple

from assay.core.case import Choice
from assay.grading.choices.listed import Item, Listed, Options, plain_words
from assay.grading.choices.wording import (
    ANNOUNCEMENTS,
    BECAUSE,
    CONCLUSION,
    CONDITION,
    FINAL,
    FINAL_BEFORE,
    LEAD_IN,
    LETTER,
    LINKING,
    MAYBE,
    NEGATION,
    REJECTED_BEFORE,
    REJECTING,
    RETRACTED,
    RIGHT,
    RIGHT_WORDS,
    Announcement,
    compiled,
)
from assay.grading.statements import unescaped
from assay.grading.thoughts import without_end_marks, without_thoughts

_VALUE = r"""\s*:\s*(\[[^][]{0,2000}\]|"(?:[^"\\]|\\.){0,2000}+"|'(?:[^'\\]|\\.){0,2000}+'|-?[\w.]+)"""
_FIELDS = tuple(
    re.compile(rf"""(?<!\\){quote}(?:{names}){quote}{_VALUE}""", re.IGNORECASE | re.DOTALL)
    for names in (
        "(?:final_|correct_|selected_|chosen_)?answers?",
        "(?:(?:final_|correct_|selected_|chosen_)?(?:choice|option|letter))|antwort|r.ponse|risposta|respuesta|答案|ответ",
    )
    for quote in ('"', "'")
)
"""Members that may hold the answer; the first kind that is there counts."""
_OBJECT_PART = re.compile(r""""(?:[^"\\]|\\.)*+("|\Z)|[{}]""", re.DOTALL)
"""A text or a brace in an object; a text that is cut off has no end."""
_ITEM = re.compile(r""""((?:[^"\\]|\\.)*+)"|'((?:[^'\\]|\\.)*+)'|([^\s,\[\]]+)""", re.DOTALL)
_LATEX = re.compile(r"\\(?:text|textbf|textit|textrm|mathbf|mathrm|mathsf|mathit|bm|boldsymbol)\s{0,9}(?=\{)")
_SPACES = re.compile(r"[ \t\u00a0\u202f]{2,}|[\u00a0\u202f]")
_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {ord("\u0130"): "I"}
"""Full-width letters as plain ones; and the one capital whose small form is two characters, so that places stay places."""
_PART_OF_WORD = re.compile(rf"[{LETTER}]{{2}}")
_BULLET = re.compile(r"[ \t]*(?:(?:[-•>#]{1,6}|[∴⇒→➡]|=>|->)[ \t]+)?")
_END = re.compile(r"[\s.!:\u3002*_`\"')\]]*\Z")
_LINK = re.compile(rf"[ \t]*[{LINKING}][*_]{{0,2}}[ \t]*")
_SENTENCE_START = re.compile(r"[.!?](?=\s)\s*|[\u3002\uff01\uff1f\n]\s*")
_SENTENCE_END = re.compile(r"[.!?;:\n\u3002]\s+|\n")
_UNKNOWN_LAST = re.compile(r"\banswer is:? [*_$\\(\[{]{0,6}(?P<id>[A-Z])[*_$\\)\]}.]{0,6}\s*\Z")
"""A last sentence that says the answer, which may be none of the choices."""
_CAPITAL = re.compile("[A-Z]")
_NAMED_LAST = re.compile(r"\(\s?(?P<name>(?:option |choice |answer )?[^()\s]{1,12}\s?\))[\s.!*_]{0,9}\Z", re.IGNORECASE)
"""A name in brackets at the end of a text."""
_NAMED = re.compile(r"\(\s?(?:option |choice |answer )?(?P<id>[^()\s]{1,12})\s?\)", re.IGNORECASE)
_REMARK = (",", ";", ".", "(", "\u2013", "\u2014")
_SHORTEST_BEGINNING = 12
"""Letters of a choice's words that stand for all of them."""
_CLAUSE = 200
"""Characters before `is correct` that are looked at."""

_MOST = 2000
"""Times that a text may say something; one that goes on beyond leaves everything open."""

Reading = frozenset[str]
"""Ids that are chosen; none where the text leaves several open."""


class _Said(NamedTuple):
    """One time that a text says what the answer is."""

    reading: Reading
    start: int
    end: int
    is_final: bool = False
    """It is said to be the last word."""
    is_sentence: bool = False
    """It says `the answer is`, and is not a label such as `Answer:`."""


def read_choices(answer: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Ids of the chosen choices in the question's order; empty when the answer names none, an unknown one or several ways."""
    options = Options(choices)
    chosen = _reading(_cleaned(answer), options)
    return tuple([choice_id for choice_id in options.ids if choice_id in chosen])


def _cleaned(answer: str) -> str:
    text = without_thoughts(without_end_marks(answer)) if "<" in answer or "[" in answer else answer
    if not text.isascii():
        text = text.translate(_WIDE)
    if "\\" in text:
        text = _LATEX.sub("", text)
    return text if "  " not in text and text.isascii() else _SPACES.sub(" ", text)


def _reading(text: str, options: Options) -> Reading:
    """What the answer means; a member of an object counts before words, except for a last sentence after the object."""
    for pattern in _FIELDS if ":" in text else ():
        values, end = set[Reading](), 0
        for match in pattern.finditer(text):
            values.add(_of_field(match.group(1), options))
            end = match.end()
        if values:
            closing = _closing_of(_after_object(text, end), options)
            return _only(values) if closing is None else closing
    return _of_words(text, options)


def _after_object(text: str, member_end: int) -> str:
    """What follows the object of a member; nothing where the object does not end, since all of the rest is part of it."""
    depth = 1
    for part in _OBJECT_PART.finditer(text, member_end):
        if part.group(1) == "":
            return ""
        depth += {"{": 1, "}": -1}.get(part.group(), 0)
        if depth == 0:
            return text[part.end() :]
    return ""


def _closing_of(text: str, options: Options) -> Reading | None:
    return _closing(text, _statements(text, options)) if text.strip() else None


def _only(readings: set[Reading]) -> Reading:
    return next(iter(readings)) if len(readings) == 1 else frozenset()


def _of_field(value: str, options: Options) -> Reading:
    if not value.startswith("["):
        return _of_words(unescaped(value[1:-1]) if value[0] in "\"'" else value, options)
    items = [next(filter(None, match.groups()), "") for match in _ITEM.finditer(value[1:-1])]
    chosen = [_whole(unescaped(item), options) or frozenset() for item in items]
    return frozenset().union(*chosen) if all(chosen) else frozenset()


def _whole(text: str, options: Options) -> Reading | None:
    """The choices that a text consists of: `B`, `(b)`, `Paris.`, `A, C`; None where it consists of anything else."""
    if text in options.ids:
        return frozenset({text})
    tokens = text.replace(",", " ").split() if len(text) < _CLAUSE else []
    if len(tokens) > 1 and "\n" not in text.strip() and all(token in options.ids for token in tokens):
        return frozenset(tokens)
    listed = options.read_list(text)
    return listed.chosen if listed and _END.match(text, listed.end) else None


def _of_words(text: str, options: Options) -> Reading:
    whole = _whole(text, options)
    if whole is not None:
        return whole
    unknown = _UNKNOWN_LAST.search(text, max(0, len(text) - _CLAUSE))
    if unknown and unknown.group("id") not in options.ids and all(_CAPITAL.fullmatch(one) for one in options.ids):
        return frozenset()
    said = _statements(text, options)
    if not said:
        return _only(_of_lines(text, options)) or _conclusion(text, options)
    closing = _closing(text, said)
    if closing is not None:
        return closing
    final = {one.reading for one in said if one.is_final}
    if RETRACTED.search(text, max(one.end for one in said)):
        return frozenset()
    # Several lines that begin with a name list the choices; a single one is an answer.
    lines = _of_lines(text, options)
    return _only(final or {one.reading for one in said} | (lines if len(lines) == 1 else set()))


def _closing(text: str, said: list[_Said]) -> Reading | None:
    """What the last sentence says that the answer is, whatever stood before it; None where it does not, or depends on something."""
    closing = [one for one in said if one.is_sentence and _END.match(text, one.end)]
    if not closing:
        return None
    start = min(one.start for one in closing)
    sentence = max((match.end() for match in _SENTENCE_START.finditer(text, 0, start)), default=0)
    if CONDITION.match(text, sentence, start):
        return None
    return _only({one.reading for one in closing})


def _conclusion(text: str, options: Options) -> Reading:
    """The choice that the very end names where nothing else counts: `It is B.`, `This matches option B.`, `London (B)`."""
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


def _named_after_words(text: str, tail: str, options: Options) -> Reading:
    """The choice of `London (B)` at the end of a text that names no other in brackets."""
    match = _NAMED_LAST.search(tail)
    item = options.read_item(tail, match.start("name")) if match else None
    before = plain_words(tail[: match.start()]) if match else ""
    words = [words for words, choice in options.by_words.items() if item and choice == item.choice]
    is_own = any(re.search(rf"(?<![{LETTER}]){re.escape(one)}\Z", before) for one in words)
    if item is None or not item.choice or not is_own or NEGATION.search(before):
        return frozenset()
    named = {match.group("id") for match in islice(_NAMED.finditer(text), _MOST)}
    return frozenset() if named & set(options.ids) - {item.choice} else frozenset({item.choice})


def _statements(text: str, options: Options) -> list[_Said]:
    """What the text says that the answer is, each time that it does."""
    lower = text.lower()
    found = [
        said
        for announcement in ANNOUNCEMENTS
        if announcement.trigger in lower
        for said in _announced(text, lower, announcement, options)
    ]
    for pattern in FINAL:
        lists = ((match, options.read_list(text, match.end())) for match in islice(pattern.finditer(text), _MOST))
        found += [_Said(listed.chosen, match.start(), listed.end, is_final=True) for match, listed in lists if listed]
    return found + _confirmed(text, lower, options) if any(word in lower for word in RIGHT_WORDS) else found


def _announced(text: str, lower: str, announcement: Announcement, options: Options) -> list[_Said]:
    found: list[_Said] = []
    place = lower.find(announcement.trigger)
    for _ in range(_MOST):
        if place < 0:
            return found
        found += _announced_at(text, place, announcement, options)
        place = lower.find(announcement.trigger, place + 1)
    # Too many to read each, but the last sentence still counts.
    last = _announced_at(text, lower.rfind(announcement.trigger), announcement, options)
    return [_Said(frozenset(), 0, len(text), is_final=True), *last]


def _announced_at(text: str, place: int, announcement: Announcement, options: Options) -> list[_Said]:
    """What is announced at one place; at most one."""
    match = compiled(announcement.pattern).match(text, place)
    before = text[max(0, place - 60) : place]
    listed = options.read_list(text, match.end()) if match and _is_meant(before, announcement) else None
    if match is None or listed is None or ("\n" in match.group() and _heads_list(text, listed, options)):
        return []
    if announcement.after and not compiled(announcement.after).match(text, listed.end):
        return []
    is_final, is_label = FINAL_BEFORE.search(before) is not None, match.groupdict().get("label") is not None
    return [_Said(listed.chosen, place, listed.end, is_final, is_sentence=not is_label)]


def _heads_list(text: str, listed: Listed, options: Options) -> bool:
    """True when the line after that of a choice begins with another one: `each option:` is followed by all of them."""
    start = text.find("\n", listed.end)
    below = text[start + 1 : start + _CLAUSE].partition("\n")[0] if start >= 0 else ""
    line = _of_line(below, options, is_first=False)
    return line is not None and bool(listed.chosen) and line.choice not in listed.chosen


def _is_meant(before: str, announcement: Announcement) -> bool:
    if _PART_OF_WORD.search(before[-1:] + announcement.trigger[0]):
        return False
    if announcement.before and not compiled(announcement.before).search(before):
        return False
    return REJECTED_BEFORE.search(before) is None


def _confirmed(text: str, lower: str, options: Options) -> list[_Said]:
    """`B is correct`, `Therefore, A and C are right.`"""
    found: list[_Said] = []
    for match in islice(RIGHT.finditer(lower), _MOST):
        if _PART_OF_WORD.match(lower[match.start() - 1 : match.start() + 1]):
            continue
        clause = text[max(0, match.start() - _CLAUSE) : match.start()].rstrip(" \u2014-")
        sentence = _SENTENCE_END.split(clause)[-1]
        chosen = _subject(sentence, options) or _subject(sentence.rsplit(",", 1)[-1], options)
        if chosen is not None:
            found.append(_Said(chosen, match.start(), match.end()))
    return found


def _subject(clause: str, options: Options) -> Reading | None:
    lead_in = LEAD_IN.match(clause)
    listed = options.read_list(clause, lead_in.end() if lead_in else 0, has_words=False)
    return listed.chosen if listed and not clause[listed.end :].strip() else None


class _Line(NamedTuple):
    """A line that begins with the name of a choice."""

    choice: str
    reading: Reading | None
    """None where the line is about the choice and does not take it."""
    is_bare: bool
    """It is the name and nothing else."""


def _of_lines(text: str, options: Options) -> set[Reading]:
    """Lines that are a name, with or without the words of its choice; and a first line that gives a reason for its name.

    Where several lines begin with names they go through the choices: one with words counts only as a paragraph before them.
    """
    lines = text.strip().splitlines()
    if len(lines) > _MOST:
        return set()
    read = [_of_line(line, options, is_first=number == 0) for number, line in enumerate(lines)]
    is_list = len({line.choice for line in read if line}) > 1
    taken = [(number, line) for number, line in enumerate(read) if line and line.reading is not None]
    if is_list and taken and _continues_list(read, taken[-1][0], options):
        taken.pop()
    is_first_apart = len(lines) > 1 and not lines[1].strip()
    if is_list and not any(line.is_bare or (number == 0 and is_first_apart) for number, line in taken):
        return set()
    return {line.reading for _, line in taken if line.reading is not None}


def _continues_list(read: list[_Line | None], number: int, options: Options) -> bool:
    """True when the last line of all is the name that comes after the one of the line above: a list that is cut off."""
    line, above = read[number], read[number - 1] if number else None
    if (
        line is None
        or above is None
        or above.is_bare
        or number != len(read) - 1
        or not {line.choice, above.choice} <= set(options.ids)
    ):
        return False
    is_told = any(other and other.choice == line.choice for other in read[:number])
    return not is_told and options.ids.index(line.choice) == options.ids.index(above.choice) + 1


def _of_line(line: str, options: Options, *, is_first: bool) -> _Line | None:
    bullet = _BULLET.match(line)
    start = bullet.end() if bullet else 0
    item = options.read_item(line, start, has_words=False)
    if item is None:
        return None
    if not item.choice:
        return _Line("", frozenset(), is_bare=False)
    if not is_first and line.rstrip(" *_").endswith(":"):
        return _Line(item.choice, None, is_bare=False)
    is_bare = _END.match(line, item.end) is not None and line.count("(") <= line.count(")")
    if is_bare or (is_first and BECAUSE.match(line, item.end)) or _is_own(line[item.end :], item, options):
        return _Line(item.choice, frozenset({item.choice}), is_bare=is_bare and not item.is_worded)
    listed = options.read_list(line, start)
    taken = listed.chosen if listed and _END.match(line, listed.end) else None
    return _Line(item.choice, taken, is_bare=taken is not None and len(taken) > 1)


def _is_own(rest: str, item: Item, options: Options) -> bool:
    """True when a line goes on after the words of its choice without taking them back, or has enough of their beginning."""
    if item.is_worded:
        remark = rest.lstrip()
        is_remark = remark[:1] in _REMARK and not REJECTING.match(remark.lstrip(" ,;.(\u2013\u2014"))
        return is_remark or BECAUSE.match(rest) is not None
    link = _LINK.match(rest)
    beginning = plain_words(rest[link.end() :]) if link else ""
    if len(beginning) < _SHORTEST_BEGINNING:
        return False
    return [choice for words, choice in options.by_words.items() if words.startswith(beginning)] == [item.choice]
