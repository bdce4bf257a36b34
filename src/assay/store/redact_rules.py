"""All redaction rules, in the order in which they are applied, and the names of members that mark a value as secret or personal."""

import re
from collections.abc import Iterable
from functools import lru_cache

import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.store.redact_patterns import Rule, options
from assay.store.redact_personal import PERSONAL
from assay.store.redact_secrets import NAMES, SECRETS

RULES: tuple[Rule, ...] = SECRETS + PERSONAL

_SECRET_NAME = re.compile(rf"(?i)(?:[\w.-]*[._-])?(?:{NAMES}|(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key)")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """True for the name of a member whose text is a secret whatever it looks like."""
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
    """The words that would stand before a member's value in a sentence, where its name says that the value is personal."""
    return next((label for pattern, label in _PERSONAL_NAMES if len(name) <= 64 and pattern.fullmatch(name)), "")


def trigger_set(others: Iterable[str]) -> re2.Set:
    """Build one automaton of all triggers, which names the rules that may apply by their numbers; the others have higher ones."""
    automaton = re2.Set.SearchSet(options())
    for pattern in (*(rule.trigger for rule in RULES), *others):
        automaton.Add(pattern)
    automaton.Compile()
    return automaton
