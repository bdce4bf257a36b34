"""Failures that providers express in words only: a rejected key, model, account or text, or a time to wait.

Many providers use a status that means something else, such as 400 for an account that was closed.
"""

import re
from collections.abc import Mapping

_MAX_CHARACTERS = 2_000
"""Maximum characters of a message that are searched: it may be a page of HTML."""
_PLAIN = frozenset({400, 403, 404, 410, 412, 422, 423, 429, 451})
"""Statuses for which the words are more exact."""
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


def worded_code(status: int, message: str, error: Mapping[str, object]) -> str:
    """Find the failure code for the words of an error; empty when its status is exact enough."""
    message = message[:_MAX_CHARACTERS]
    if status not in _PLAIN or (status == 429 and wait_of(message, error) is not None):
        return ""
    if _KEY.search(message):
        return "unauthorized"
    if _ACCOUNT.search(message):
        return "payment_required"
    if _is_flagged(error) or (status != 429 and _TEXT.search(message)):
        return "content_filtered"
    return "not_found" if status != 429 and _MODEL.search(message) else ""


def is_out_of_quota(message: str, error: Mapping[str, object]) -> bool:
    """Tell whether the quota is used up; some providers use these words for a limit that resets within a minute."""
    message = message[:_MAX_CHARACTERS]
    if not _QUOTA.search(message):
        return False
    return wait_of(message, error) is None or bool(_NO_QUOTA.search(f"{message} {error.get('details', '')}"))


def wait_of(message: str, error: Mapping[str, object]) -> float | None:
    """Find the seconds to wait that a provider gives in the body only."""
    details = error.get("details")
    delays = [detail.get("retryDelay") for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    delay_text = next((delay for delay in delays if isinstance(delay, str)), "")
    found = _WAIT.search(message[:_MAX_CHARACTERS]) or re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", delay_text)
    return float(found[1]) if found else None


def _is_flagged(error: Mapping[str, object]) -> bool:
    """Tell whether moderation in front of a model rejected this one text."""
    metadata = error.get("metadata")
    return isinstance(metadata, dict) and "flagged_input" in metadata
