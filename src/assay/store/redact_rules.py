"""All redaction rules, in order of application, and the member names that mark a value as secret or personal."""

import re
from functools import lru_cache

import re2  # type: ignore[import-untyped]  # the package has no stubs

from assay.store.redact_patterns import Rule, options
from assay.store.redact_personal import PERSONAL
from assay.store.redact_secrets import NAMES, SECRETS

RULES: tuple[Rule, ...] = SECRETS + PERSONAL

_SECRET_NAME = re.compile(rf"(?i)(?:[\w.-]*[._-])?(?:{NAMES}|(?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key)")


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Tell whether a member of this name always holds a secret."""
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
    automaton = re2.Set.SearchSet(options())
    for pattern in (*(rule.trigger for rule in RULES), *others):
        automaton.Add(pattern)
    automaton.Compile()
    return automaton
