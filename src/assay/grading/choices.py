"""The choice that an answer makes, read leniently in form and strictly in meaning."""

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache

from assay.core.case import Choice

_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_FIELD = re.compile(
    r"""["'](?:answer|answers)["']\s*:\s*(\[[^][]{0,2000}\]|"(?:[^"\\]|\\.){0,2000}"|'(?:[^'\\]|\\.){0,2000}'|-?\w+)""",
    re.IGNORECASE | re.DOTALL,
)
_ITEM = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s,\[\]]+)""", re.DOTALL)
_SEPARATOR = re.compile(r"\s*(?:[,;/&+]|\band\b)\s*|\s+", re.IGNORECASE)
_WRAPPED = " \t\r\n\"'`*_()[]{}.,:;!$"
_PREFIX = re.compile(r"\A(?:the\s+)?(?:correct\s+|final\s+)?(?:answer|choice|option)s?\s*(?:is|are|:|=)?\s*", re.IGNORECASE)
_ANNOUNCED = (
    r"\b(?:answers?|choices?|options?)\b[*_`]*\s*(?:\b(?:is|are|would be|must be|should be)\b|:|=)[*_`]*\s*:?\s*"
    r"(?:\b(?:option|choice)s?\b\s*)?"
)
_ESCAPE = re.compile(r'\\(["\\/])')
_LONGEST_LIST = 200
"""Characters of a text that is nothing but a list of choices."""
_WORD_IDS = frozenset({"a", "i", "I"})
"""Ids that are words of their own: in prose they count only before punctuation or at the end."""


def selected_choices(answer: str, choices: tuple[Choice, ...]) -> tuple[str, ...]:
    """Ids of the chosen choices in the question's order; empty when the answer names none, an unknown one or several ways."""
    text = _THOUGHT.sub(" ", answer) if "<" in answer else answer
    readings = _readings(text, _Options(choices))
    if len(readings) != 1:
        return ()
    (chosen,) = readings
    return tuple(choice.id for choice in choices if choice.id in chosen)


class _Options:
    """The choices of one question by everything that may name them."""

    def __init__(self, choices: tuple[Choice, ...]) -> None:
        self._choices = choices
        self.ids = tuple([choice.id for choice in choices])

    # Most answers name an id as it is spelled, and need neither of these.

    @cached_property
    def by_folded(self) -> dict[str, str]:
        """Ids by their spelling without case."""
        return _unique((choice.id.casefold(), choice.id) for choice in self._choices)

    @cached_property
    def by_text(self) -> dict[str, str]:
        """Ids by the words of the choice."""
        return _unique((choice.text.strip().casefold(), choice.id) for choice in self._choices)

    def named(self, token: str) -> str | None:
        """The id that a token is, apart from quotes, brackets and, where only one id fits, case."""
        if token in self.ids:
            return token
        for spelling in (token.strip(), token.strip(_WRAPPED)):
            if spelling in self.ids:
                return spelling
        return self.by_folded.get(token.strip(_WRAPPED).casefold())


def _unique(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Without the keys that occur more than once."""
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return {key: found[0] for key, found in values.items() if len(found) == 1}


def _readings(text: str, options: _Options) -> set[frozenset[str]]:
    """What the answer may mean; exactly one reading is an answer."""
    fields = [match.group(1) for match in _FIELD.finditer(text)]
    if fields:
        return {_of_field(field, options) or frozenset() for field in fields}
    whole = _of_text(text, options)
    return {whole} if whole else _of_markers(text, options)


def _of_field(field: str, options: _Options) -> frozenset[str] | None:
    if not field.startswith("["):
        text = _unquoted(field)
        if text in options.ids and text.isalnum():
            # Most answers are nothing but an id, which without punctuation can be no label before something else.
            return frozenset((text,))
        labelled = _labelled(text, options)
        return frozenset({labelled}) if labelled else _of_text(text, options)
    items = [_unescaped(next(group for group in match.groups() if group is not None)) for match in _ITEM.finditer(field[1:-1])]
    chosen = [_one(item, options) or _labelled(item, options) for item in items]
    return frozenset(one for one in chosen if one) if chosen and all(chosen) else None


def _unquoted(field: str) -> str:
    return _unescaped(field[1:-1]) if field[:1] in "\"'" else field


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text


def _of_text(text: str, options: _Options) -> frozenset[str] | None:
    """The choices that a whole short text names: `B`, `(b)`, `Paris`, `A, C`."""
    one = _one(text, options)
    if one:
        return frozenset({one})
    if len(text) > _LONGEST_LIST:
        return None
    bare = _PREFIX.sub("", text.strip(), count=1).strip(_WRAPPED)
    named = [options.named(part) for part in _SEPARATOR.split(bare) if part]
    return frozenset(name for name in named if name) if named and all(named) else None


def _one(text: str, options: _Options) -> str | None:
    named = options.named(text)
    if named:
        return named
    bare = text.strip()
    if bare.casefold() in options.by_text:
        return options.by_text[bare.casefold()]
    bare = _PREFIX.sub("", bare, count=1)
    label = _label_pattern(options.ids).match(bare)
    if label and options.by_text.get(bare[label.end() :].strip().casefold()) == label.group(1):
        return label.group(1)
    return options.named(bare)


def _labelled(text: str, options: _Options) -> str | None:
    """`B) Paris` is B unless the words after the label are those of another choice."""
    match = _label_pattern(options.ids).match(text)
    if match is None or "\n" in text.strip():
        return None
    named = match.group(1)
    follows = options.by_text.get(text[match.end() :].strip().casefold(), named)
    return named if follows == named else None


@lru_cache(maxsize=1024)
def _label_pattern(ids: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\s*[(\[*]*({_alternatives(ids)})[*]*\s*[)\].:][*]*(?:\s+|\Z)")


@lru_cache(maxsize=1024)
def _marker_pattern(ids: tuple[str, ...]) -> re.Pattern[str]:
    """An announcement and the ids right after it: `the answer is B`, `Answer: (A, C)`, `\\boxed{B}`."""
    one = rf"[(\[{{*_`'\"$]*(?:{_alternatives(ids)})(?![\w-])[)\]}}*_`'\"$]*"
    listed = rf"{one}(?:\s*(?:,|;|&|/|\band\b)\s*(?:and\s+)?{one})*"
    return re.compile(rf"(?:{_ANNOUNCED}|\\boxed\s*(?=\{{))({listed})(\s*\w|)", re.IGNORECASE)


def _alternatives(ids: tuple[str, ...]) -> str:
    return "|".join(re.escape(choice_id) for choice_id in sorted(ids, key=len, reverse=True))


def _of_markers(text: str, options: _Options) -> set[frozenset[str]]:
    found = {
        _of_marker(match.group(1), options, goes_on=bool(match.group(2))) for match in _marker_pattern(options.ids).finditer(text)
    }
    found.discard(frozenset())
    return found or _of_lines(text, options)


def _of_marker(listed: str, options: _Options, *, goes_on: bool) -> frozenset[str]:
    """Ids in prose count only as they are spelled: `the answer is a river` names no choice A."""
    tokens = [part.strip(_WRAPPED) for part in _SEPARATOR.split(listed) if part.strip(_WRAPPED)]
    if any(token not in options.ids for token in tokens) or (goes_on and tokens[-1] in _WORD_IDS):
        return frozenset()
    return frozenset(tokens)


def _of_lines(text: str, options: _Options) -> set[frozenset[str]]:
    """Lines that open with a label, as `B) Paris` does."""
    named = (_labelled(line, options) for line in text.splitlines())
    return {frozenset({name}) for name in named if name}
