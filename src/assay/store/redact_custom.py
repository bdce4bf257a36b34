"""Custom redaction rules: checked before a run starts, and applied to every stored text."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.core.redact_rule import RedactRule
from assay.store.redact_patterns import options
from assay.store.redact_rules import RULES

_BUILT_IN = frozenset(rule.name for rule in RULES) | {"secret"}

_single_byte = re.compile(r"(?<!\\)(?:\\\\)*\\C").search
_SAMPLES = (b"", b"a", b"aa", b"a a")
"""Texts with every position that a zero-width pattern can match: ends, and edges and insides of words."""


class CustomRules:
    """The custom rules of a run, in order; false when there are none."""

    def __init__(self, rules: Iterable[RedactRule]) -> None:
        # A sealed run stores a pattern that matches itself only as [REDACTED:name], which would match single letters.
        self._rules = [(rule.name, _compiled(rule.pattern)) for rule in rules if "[REDACTED:" not in rule.pattern]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def replaced(self, text: bytes, counts: Counter[str]) -> bytes:
        """Replace and count what the rules find; returns the same object when there is nothing."""
        for name, pattern in self._rules:
            pieces: list[bytes] = []
            end = 0
            for match in pattern.finditer(text):
                if match.start() == match.end():
                    continue
                # Adjacent matches become one placeholder, so that `.` does not make a text many times as long.
                if match.start() != end or not pieces:
                    pieces += (text[end : match.start()], f"[REDACTED:{name}]".encode())
                end = match.end()
                counts[name] += 1
            if pieces:
                text = b"".join((*pieces, text[end:]))
        return text

    def are_clean(self, texts: Iterable[str]) -> bool:
        """Tell whether no rule finds anything in any of the texts."""
        return not self._rules or not any(pattern.search(text.encode()) for text in texts for _, pattern in self._rules)


class RuleProblem(msgspec.Struct, frozen=True):
    """Why a rule cannot be used."""

    member: str
    message: str
    hint: str


def rule_problem(rule: RedactRule, *, earlier: Container[str] = ()) -> RuleProblem | None:
    """Check a rule; `earlier` are the names of the rules before it."""
    if rule.name in _BUILT_IN:
        hint = "choose another name, so that the counts stay apart"
        return RuleProblem("name", f"'{rule.name}' is the name of a built-in rule", hint)
    if rule.name in earlier:
        return RuleProblem("name", f"two rules have the name '{rule.name}'", "give each rule its own name")
    try:
        pattern = _compiled(rule.pattern)
    except re2.error as problem:
        reason = problem.args[0].decode() if isinstance(problem.args[0], bytes) else str(problem.args[0])
        hint = "patterns are in the syntax of RE2, which has neither look-around nor back-references"
        return RuleProblem("pattern", f"the pattern cannot be used: {reason}", hint)
    if _single_byte(rule.pattern):
        return RuleProblem("pattern", "\\C finds single bytes, which are no text", "write . for any character")
    if any(match.start() == match.end() for text in _SAMPLES for match in pattern.finditer(text)):
        return RuleProblem("pattern", "the pattern matches the empty text", "write + instead of *, or name what must be there")
    return None


def rule_problems(rules: Sequence[RedactRule]) -> tuple[str, ...]:
    """Find every problem of a list of rules, each with its location in the list."""
    names: set[str] = set()
    problems: list[str] = []
    for index, rule in enumerate(rules):
        problem = rule_problem(rule, earlier=names)
        names.add(rule.name)
        if problem is not None:
            problems.append(f"redact[{index}].{problem.member}: {problem.message}; {problem.hint}")
    return tuple(problems)


def _compiled(pattern: str) -> re2._Regexp:
    settings = options()
    settings.never_capture = True
    return re2.compile(pattern, settings)
