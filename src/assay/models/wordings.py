"""What providers say in words only: that a key, a model or an account is rejected, that a text is, or that waiting helps.

Many say it with a status that means something else, such as 400 for an account that was closed.
"""

import re
from collections.abc import Mapping
from typing import Any

_MOST_CHARACTERS = 2_000
"""Of an explanation that are looked at: it may be a page of HTML."""
_PLAIN = frozenset({400, 403, 404, 410, 412, 422, 423, 429, 451})
"""Statuses of which the words say more."""
_BECAME = "(?:is|are|was|were|has been|have been)"
_KEY = re.compile(
    r"\bapi[ _-]key[ _](?:is )?(?:not valid|invalid|expired|has expired|was reported)"
    r"|\b(?:incorrect|invalid|unknown|expired|revoked) api[ _-]key\b",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    rf"\b(?:account|subscription|organi[sz]ation|workspace|project|team) (?:\S{{1,80}} )?{_BECAME} "
    r"(?:not active|inactive|deactivated|disabled|suspended|restricted|terminated|archived|closed|flagged|blocked)\b"
    rf"|\baccess {_BECAME} terminated\b"
    r"|\b(?:reached|exceeded) (?:your|the|its|their) (?:\w+ )?(?:api usage|monthly|spend|spending|usage|credit) (?:\w+ )?limits?\b"
    r"|\bbilling (?:hard )?limit\b|\bused all available credits\b|\bcredit balance is too low\b"
    r"|\binsufficient (?:balance|credits|funds)\b",
    re.IGNORECASE,
)
_MODEL = re.compile(
    r"\b(?:invalid|unknown) model(?: id| name| identifier)?(?=$|[:.,`'\" ]+(?!parameter|output|response|input|setting))"
    r"|\bnot a valid model\b"
    r"|\bmodel(?: id| name| identifier)?:? ?[`'\"]?\S{0,200}?[`'\"]? ?"
    r"(?:(?:does )?not exist\b|not found\b|is (?:invalid|unknown|blocked)\b"
    r"|has been (?:decommissioned|deprecated|retired|shut down)\b|requires (?:terms|license) acceptance)",
    re.IGNORECASE,
)
_TEXT = re.compile(
    rf"\b(?:input|prompt|content|text|message|output|response|answer|completion)s? {_BECAME} (?:flagged|blocked|filtered)\b"
    r"|\bcontent (?:filter(?:ing)?|management|moderation|safety|policy)\b"
    r"|\bblocked by (?:a |the |our )?guardrails?\b|\bsafety system\b|\boutput blocked\b",
    re.IGNORECASE,
)
_QUOTA = re.compile(r"\bexceeded your current quota\b|\bcredit balance is too low\b", re.IGNORECASE)
_WAIT = re.compile(r"\b(?:retry|try again) in (\d{1,9}(?:\.\d{1,9})?) ?s(?:econds?)?\b", re.IGNORECASE)
_NO_QUOTA = re.compile(r"\blimit: 0\b|PerDay", re.IGNORECASE)


def worded_code(status: int, message: str, error: Mapping[str, Any]) -> str:
    """The failure code that the words of a refusal stand for; empty where its status says it all."""
    message = message[:_MOST_CHARACTERS]
    if status not in _PLAIN or (status == 429 and wait_of(message, error) is not None):
        return ""
    if _KEY.search(message):
        return "unauthorized"
    if _ACCOUNT.search(message):
        return "payment_required"
    if _is_flagged(error) or (status != 429 and _TEXT.search(message)):
        return "content_filtered"
    return "not_found" if status != 429 and _MODEL.search(message) else ""


def is_out_of_quota(message: str, error: Mapping[str, Any]) -> bool:
    """True when the words say that nothing is left of the quota; some say so of a limit that is over in a minute."""
    message = message[:_MOST_CHARACTERS]
    if not _QUOTA.search(message):
        return False
    return wait_of(message, error) is None or bool(_NO_QUOTA.search(f"{message} {error.get('details', '')}"))


def wait_of(message: str, error: Mapping[str, Any]) -> float | None:
    """Seconds after which a provider says that it takes calls again, where it says so in the body only."""
    details = error.get("details")
    delays = [one.get("retryDelay") for one in details if isinstance(one, dict)] if isinstance(details, list) else []
    told = next((delay for delay in delays if isinstance(delay, str)), "")
    found = _WAIT.search(message[:_MOST_CHARACTERS]) or re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", told)
    return float(found[1]) if found else None


def _is_flagged(error: Mapping[str, Any]) -> bool:
    """True for what moderation in front of a model says of the one text that it was given."""
    metadata = error.get("metadata")
    return isinstance(metadata, dict) and "flagged_input" in metadata
