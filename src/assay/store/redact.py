"""All redaction rules, in order of application, and the member names that mark a value as secret or personal."""

import copy
import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import msgspec
import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.core.secrets import AS_CREDENTIAL, RedactRule, forms_of, is_distinctive
from assay.store.redact_patterns import Rule, Span, compiled, escaped, is_placeholder, options
from assay.store.redact_personal import IP_ADDRESS, PERSONAL
from assay.store.redact_secrets import NAMES, SECRETS

RULES: tuple[Rule, ...] = SECRETS + PERSONAL

# A value under such a name is secret in any form, and short passwords have no form to recognise.
_SECRET_NAME = re.compile(rf"(?i)(?:[\w.-]*[._-])?(?:{NAMES}|(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key)")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a member of this name always holds a secret."""
    return len(name) <= 64 and _SECRET_NAME.fullmatch(name) is not None


_PERSONAL_NAMES = (
    (
        re.compile(r"(?i)(?:[\w.-]*[._-])?(?:dob|date[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)|born|geburtsdatum)"),
        "date of birth",
    ),
    (re.compile(r"(?i)(?:[\w.-]*[._-])?passport(?:[ _-]?(?:number|no|nr|id))?"), "passport number"),
    (re.compile(r"(?i)(?:[\w.-]*[._-])?(?:phone|mobile|telephone|tel|fax)(?:[ _-]?(?:number|no|nr))?"), "phone"),
    (re.compile(r"(?i)(?:[\w.-]*[._-])?(?:ssn|social[ _-]?security[ _-]?(?:number|no)?)"), "ssn"),
    (
        re.compile(r"(?i:(?:[\w.-]*[._-])?(?:ip|ip[ _-]?addr(?:ess)?|remote[ _-]?addr(?:ess)?))|[a-z]\w*[a-z](?:Ip|IP)"),
        "ip address",
    ),
)


@lru_cache(maxsize=4096)
def personal_label(name: str) -> str:
    """Return the label that would precede a member's value in a sentence, when its name says that the value is personal."""
    return next((label for pattern, label in _PERSONAL_NAMES if len(name) <= 64 and pattern.fullmatch(name)), "")


@lru_cache(maxsize=4)
def trigger_set(others: tuple[str, ...]) -> re2.Set:
    """Build one automaton of all triggers, which returns the numbers of rules that may apply; the others have higher numbers.

    It is large and grows with the texts that it searches, and a run has several redactors: those with the same keys share it.
    """
    # One search for all rules: texts without anything to redact, nearly all of them, are read once. RE2 is linear in any text.
    automaton = re2.Set.SearchSet(options())
    for pattern in (*(rule.trigger for rule in RULES), *others):
        automaton.Add(pattern)
    automaton.Compile()
    return automaton


_BUILT_IN = frozenset(rule.name for rule in RULES) | {"secret"}

_single_byte = re.compile(r"(?<!\\)(?:\\\\)*\\C").search
_SAMPLES = (b"", b"a", b"aa", b"a a")
"""Texts with every position that a zero-width pattern can match: ends, and edges and insides of words."""


class CustomRules:
    """Custom rules of a run, in order; false when there are none."""

    def __init__(self, rules: Iterable[RedactRule]) -> None:
        # A sealed run stores a pattern that matches itself only as [REDACTED:name], which would match single letters.
        self._rules = [(rule.name, _compile_rule(rule.pattern)) for rule in rules if "[REDACTED:" not in rule.pattern]

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
        """Return whether no rule finds anything in any of the texts."""
        return not self._rules or not any(pattern.search(text.encode()) for text in texts for _, pattern in self._rules)


class RuleProblem(msgspec.Struct, frozen=True):
    """Reason why a rule cannot be used."""

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
        pattern = _compile_rule(rule.pattern)
    except re2.error as problem:
        reason = problem.args[0].decode() if isinstance(problem.args[0], bytes) else str(problem.args[0])
        hint = "patterns are in the syntax of RE2, which has neither look-around nor back-references"
        return RuleProblem("pattern", f"the pattern cannot be used: {reason}", hint)
    if _single_byte(rule.pattern):
        return RuleProblem("pattern", "\\C finds single bytes, which are not text", "write . for any character")
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


def _compile_rule(pattern: str) -> re2._Regexp:
    settings = options()
    # Custom patterns are replaced as a whole, and groups would only slow them down.
    settings.never_capture = True
    return re2.compile(pattern, settings)


OWN_SECRET = "secret"
"""Rule that replaces the run's own keys."""

MIN_SECRET = 4
"""A shorter value is not a key, and replacing it would spoil every text."""

_CARD_SIZED = 10**11
_MIN_REPEATED = 12
"""A shorter value that was recognised by its context may be an ordinary word in other places of the text."""

_encode = msgspec.json.Encoder().encode


class StructureFields(msgspec.Struct, frozen=True, kw_only=True):
    """Members of a structure that belong to the program, so that custom rules leave them alone, as they do its numbers."""

    names: frozenset[str] | None = None
    """Program-owned member names; any other name and its value belong to the user. None: all names are the program's."""
    terms: frozenset[str] = frozenset()
    """Members whose values the program looks things up by: kinds, codes, hashes, ids within a record."""
    free: frozenset[str] = frozenset()
    """Members that hold objects of the user."""


class Redactor:
    """Replaces sensitive text by `[REDACTED:rule]` and counts by rule.

    `extra_secrets` are the values of keys that the run uses. They are replaced everywhere, also escaped for JSON or a URL or in
    base64; a short one or an ordinary word only where it is used as a key. `custom` are the user's own rules, applied before the
    built-in ones. `known_hosts` are addresses of machines that the operator has configured; they are not replaced.
    """

    def __init__(
        self, extra_secrets: Iterable[str] = (), custom: Iterable[RedactRule] = (), *, known_hosts: Iterable[str] = ()
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._known_hosts = frozenset(host.encode() for host in known_hosts if host)
        custom = tuple(custom)
        secrets = {secret for secret in extra_secrets if len(secret) >= MIN_SECRET}
        forms = {form for secret in secrets if is_distinctive(secret) for form in forms_of(secret)}
        # The longest first: one secret may be the beginning of another.
        self._long = sorted(sorted(forms), key=len, reverse=True)
        self._words = sorted(sorted(secret for secret in secrets if not is_distinctive(secret)), key=len, reverse=True)
        self._as_credentials = [Rule(OWN_SECRET, "", _as_credential(word)) for word in self._words]
        self._triggers = trigger_set((*map(escaped, self._long), *(rule.pattern for rule in self._as_credentials)))
        self._secrets, self._rules = secrets, custom
        self._without_custom: Redactor | None = None
        self._custom = CustomRules(())
        rules = CustomRules(custom)
        if rules:
            # The copy shares automaton and counts, and is what the program's own terms are redacted by.
            self._without_custom, self._custom = copy.copy(self), rules

    @property
    def _built_in(self) -> "Redactor":
        # No reference cycle: the redactor and its keys are then freed as soon as the run ends, not by a later garbage collection.
        return self._without_custom or self

    @property
    def fingerprint(self) -> str:
        """Hash of the rules and keys: equal for redactors that find the same; does not reveal the keys."""
        return _fingerprint(self._secrets, self._rules, self._known_hosts)

    def term(self, text: str) -> str:
        """Redact a name that the program looks things up by; custom rules do not apply to it."""
        return self._built_in.text(text)

    def text(self, text: str) -> str:
        """Redact a text; returns the same object when there is nothing to redact."""
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            encoded = text.encode()
        custom = self._custom.replaced(encoded, self.counts)
        triggered = self._triggers.Match(custom)
        if triggered is None:
            # The same object tells callers that nothing was found, without comparing long texts.
            return text if custom is encoded else custom.decode()
        return self._redact_bytes(custom, sorted(triggered)).decode()

    def is_clean(self, texts: Iterable[str]) -> bool:
        """Return whether no rule may apply to any of the texts; one search over all of them."""
        texts = tuple(texts)
        try:
            return self._triggers.Match("\n".join(texts).encode()) is None and self._custom.are_clean(texts)
        except UnicodeEncodeError:
            return False

    def is_clean_json(self, documents: Iterable[bytes]) -> bool:
        """Return whether `encoded` would redact nothing in any of these JSON texts; one search over all of them."""
        # JSON escapes change what a custom rule matches, with `^` or `"` for example, so that only built-in rules can search JSON.
        return not self._custom and self._triggers.Match(b"\n".join(documents)) is None

    def value(self, value: object) -> Any:
        """Redact every text in a JSON-like value of the user, names of members included."""
        return self._value(value, None)

    def structure(self, value: object, form: StructureFields) -> Any:
        """Redact a JSON-like structure of the program or a contract; custom rules apply to the user's texts in it only."""
        return self._value(value, form if self._custom else None)

    def _value(self, value: object, form: StructureFields | None) -> object:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return self._members(value, form)
        if isinstance(value, list | tuple):
            return [self._value(member, form) for member in value]
        has_custom = self._custom and form is None and not isinstance(value, bool)
        # A card number may stand in JSON as a number; smaller integers match no built-in rule.
        if isinstance(value, int) and (value >= _CARD_SIZED or has_custom):
            redacted = self.text(str(value)) if has_custom else self.term(str(value))
            return value if redacted == str(value) else redacted
        return value

    def encoded(self, value: object, form: StructureFields | None = None) -> bytes:
        """Encode a value, or Struct, as redacted JSON; a clean one is searched only once, as bytes."""
        form = form if self._custom else None
        try:
            line = _encode(value)
        except UnicodeEncodeError:
            return _encode(self._value(msgspec.to_builtins(value), form))
        # One search of the encoded bytes instead of one for each text in them.
        return line if self.is_clean_json((line,)) else _encode(self._value(msgspec.json.decode(line), form))

    def _members(self, value: Mapping[str, object], form: StructureFields | None) -> dict[str, object]:
        members: dict[str, object] = {}
        for name, member in value.items():
            is_own = form is not None and (form.names is None or name in form.names)
            base = unique = self.term(name) if is_own else self.text(name)
            repetition = 1
            # Two names may become the same placeholder; neither member may be lost for that.
            while unique in members:
                repetition += 1
                unique = f"{base}#{repetition}"
            if form is not None and is_own and name in form.terms:
                members[unique] = self._built_in._member(name, member, None)
            else:
                members[unique] = self._member(
                    name, member, form if form is not None and is_own and name not in form.free else None
                )
        return members

    def _member(self, name: str, member: object, form: StructureFields | None) -> object:
        # A seed is as long as a card number and passes the check digit in one of ten cases.
        if isinstance(member, int) and name.lower().endswith("seed") and (form is not None or not self._custom):
            return member
        if isinstance(member, dict) and personal_label(name) == "passport number":
            # `{"passport": {"number": "..."}}` means the same as `{"passport_number": "..."}`.
            return {
                inner: self._member(f"passport_{inner}", value, form) if personal_label(f"passport_{inner}") else value
                for inner, value in self._members(member, form).items()
            }
        if isinstance(member, str) and member and is_secret_name(name):
            rule = OWN_SECRET if member in self._words else "" if is_placeholder(member) else "assignment"
            if rule:
                self.counts[rule] += 1
                return f"[REDACTED:{rule}]"
        label = personal_label(name) if isinstance(member, str) else ""
        # A date or number is personal because of its name, as it would be in a sentence; the label makes the rule match.
        return self.text(f"{label}: {member}").removeprefix(f"{label}: ") if label else self._value(member, form)

    def _redact_bytes(self, text: bytes, triggered: list[int]) -> bytes:
        if triggered[-1] >= len(RULES):
            text = self._without_own_secrets(text)
        for rule in (RULES[number] for number in triggered if number < len(RULES)):
            text = self._without(rule, text)
        return text

    def _without_own_secrets(self, text: bytes) -> bytes:
        for form in self._long:
            self.counts[OWN_SECRET] += text.count(form.encode())
            text = text.replace(form.encode(), f"[REDACTED:{OWN_SECRET}]".encode())
        for rule in self._as_credentials:
            text = self._without(rule, text)
        return text

    def _without(self, rule: Rule, text: bytes) -> bytes:
        """Replace everything that one rule finds."""
        search = compiled(rule.pattern).search
        pieces: list[bytes] = []
        repeated: set[bytes] = set()
        end = 0
        match = search(text)
        while match is not None:
            found = match.span(match.lastindex or 0)
            span = found if rule.check is None else rule.check(text, found)
            if span is not None and rule.name == IP_ADDRESS and text[span[0] : span[1]] in self._known_hosts:
                following = span[1]
            elif span is not None:
                pieces += (text[end : span[0]], f"[REDACTED:{rule.name}]".encode())
                end = following = span[1]
                if rule.is_secret and span[1] - span[0] >= _MIN_REPEATED:
                    repeated.add(text[span[0] : span[1]])
                self.counts[rule.name] += 1
            else:
                following = _after_word(text, found[0]) if rule.is_number else max(match.end(), found[0] + 1)
            # Searched again from the end of the span and not of the match: a pattern may have read into what follows.
            match = search(text, following)
        text = b"".join((*pieces, text[end:])) if pieces else text
        return self._without_repeated(rule.name, text, repeated)

    def _without_repeated(self, rule: str, text: bytes, repeated: set[bytes]) -> bytes:
        """Replace further occurrences of what a rule has found; one pass, however many different values there are."""
        pieces: list[bytes] = []
        end = 0
        for start, following in _occurrences(text, repeated) if repeated else ():
            pieces += (text[end:start], f"[REDACTED:{rule}]".encode())
            end = following
            self.counts[rule] += 1
        return b"".join((*pieces, text[end:])) if pieces else text


def _occurrences(text: bytes, wanted: set[bytes]) -> Iterator[Span]:
    """Find these texts of at least `_MIN_REPEATED` bytes; the longest where several begin, none within another."""
    if len(wanted) == 1:
        # By far the most frequent case, and many times as fast.
        (only,) = wanted
        start = text.find(only)
        while start >= 0:
            yield start, start + len(only)
            start = text.find(only, start + len(only))
        return
    lengths: dict[bytes, set[int]] = {}
    for one in wanted:
        lengths.setdefault(one[:_MIN_REPEATED], set()).add(len(one))
    end = 0
    # One slice and one lookup per offset: linear in the text, however many texts are wanted.
    starts = [start for start in range(len(text) - _MIN_REPEATED + 1) if text[start : start + _MIN_REPEATED] in lengths]
    for start in starts:
        sizes = sorted(lengths[text[start : start + _MIN_REPEATED]], reverse=True) if start >= end else ()
        size = next((size for size in sizes if text[start : start + size] in wanted), 0)
        if size:
            end = start + size
            yield start, end


def _fingerprint(secrets: Iterable[str], custom: Iterable[RedactRule], hosts: Iterable[bytes]) -> str:
    digest = hashlib.sha256(_rules_fingerprint())
    digest.update(_encode([(rule.name, rule.pattern) for rule in custom]))
    digest.update(_encode(sorted(host.decode() for host in hosts)))
    for secret in sorted(secrets):
        # scrypt is slow to brute-force: a key may be a plain word.
        digest.update(hashlib.scrypt(secret.encode(), salt=b"assay redaction", n=2**12, r=8, p=1))
    return digest.hexdigest()


@cache
def _rules_fingerprint() -> bytes:
    return hashlib.sha256(_encode([(rule.name, rule.trigger, rule.pattern) for rule in RULES])).digest()


def _as_credential(word: str) -> str:
    return rf"{AS_CREDENTIAL}({escaped(word)})(?:$|[^\pL\pN_])"


_word = re.compile(rb"[0-9A-Za-z+(]+").match


def _after_word(text: bytes, start: int) -> int:
    """Find where the first word or number of a rejected match ends."""
    word = _word(text, start)
    return word.end() if word else start + 1
