"""Failures that providers express in words only: a rejected key, model, account or text, or a time to wait.

Many providers use a status that means something else, such as 400 for an account that was closed.
"""

import math
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from socket import gaierror
from ssl import SSLError
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.model_call import ModelFailure

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
_CUT_OFF = re.compile(r"\bmax_tokens or model output limit was reached\b", re.IGNORECASE)
"""A model that thinks until its limit and has no answer then: a status 400 in place of a finish reason."""
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
    if _CUT_OFF.search(message):
        return "answer_truncated"
    return "not_found" if status != 429 and _MODEL.search(message) else ""


def is_out_of_quota(message: str, error: Mapping[str, object]) -> bool:
    """Return whether the quota is used up; some providers use these words for a limit that resets within a minute."""
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
    """Return whether moderation in front of a model rejected this one text."""
    metadata = error.get("metadata")
    return isinstance(metadata, dict) and "flagged_input" in metadata


MAX_MESSAGE = 500
"""Maximum characters of a provider's message that are stored."""
MAX_REQUEST_ID = 200
READ_HEADERS = ("x-request-id", "request-id", "x-amzn-requestid", "retry-after")
"""Headers of a failed reply that are read."""

STATUS_CODES: dict[int, str] = {
    400: "invalid_request",
    401: "unauthorized",
    402: "payment_required",
    403: "forbidden",
    404: "not_found",
    408: "timeout",
    409: "conflict",
    413: "request_too_large",
    422: "invalid_request",
    424: "internal_error",
    425: "service_unavailable",
    429: "rate_limited",
    498: "rate_limited",
    500: "internal_error",
}
ERROR_WORDS: dict[str, str] = {
    "api_error": "internal_error",
    "access_terminated": "unauthorized",
    "account_deactivated": "unauthorized",
    "authentication_error": "unauthorized",
    "billing_error": "payment_required",
    "billing_not_active": "payment_required",
    "content_filter": "content_filtered",
    "content_policy_violation": "content_filtered",
    "context_length_exceeded": "context_too_long",
    "insufficient_quota": "rate_limited",
    "internal_server_error": "internal_error",
    "invalid_api_key": "unauthorized",
    "invalid_model": "not_found",
    "invalid_prompt": "content_filtered",
    "invalid_request_error": "invalid_request",
    "model_decommissioned": "not_found",
    "model_not_available": "not_found",
    "model_not_found": "not_found",
    "model_terms_required": "not_found",
    "not_found_error": "not_found",
    "organization_restricted": "unauthorized",
    "overloaded_error": "service_unavailable",
    "permission_error": "forbidden",
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "request_too_large": "request_too_large",
    "server_error": "internal_error",
    "server_is_overloaded": "service_unavailable",
    "timeout_error": "timeout",
    "unsupported_parameter": "parameter_refused",
    "unsupported_value": "parameter_refused",
}
"""Failure codes by the `code` or `type` of an error object; the more exact `code` is checked first."""
EXCEPTION_CODES: dict[str, str] = {
    "TimeoutError": "timeout",
    "SSLCertVerificationError": "certificate_refused",
    "OSError": "service_unavailable",
}
"""Failure codes by the exception's class, then by its parents."""
_CONTROLS = re.compile("[\x01-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that would move a terminal's cursor or reverse its text."""
_EXACT_WORDS = frozenset({"content_filtered", "context_too_long", "not_found", "parameter_refused", "unauthorized"})
"""Codes of an error object that are more exact than the status."""
_EXHAUSTED_WORDS = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active", "credit_balance_too_low"}
)


class ErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """An error response: its status, its body and its headers."""

    provider: str
    status: int
    body: Any = None
    """Body as JSON, or as text if it is not JSON."""
    headers: Mapping[str, str] = {}


def status_failure(refusal: ErrorResponse) -> ModelFailure:
    """Build the failure for an HTTP status other than success."""
    error = _error_object(refusal.body)
    code = _status_code(refusal.status)
    word_code = _word_code(error)
    if not 300 <= refusal.status < 400 and word_code in _EXACT_WORDS:
        code = word_code
    wording = _wording(error, refusal.body)
    if code == _status_code(refusal.status):
        code = worded_code(refusal.status, wording, error) or code
    failure = ModelFailure(
        code,
        shorten(f"HTTP {refusal.status} from '{refusal.provider}': {wording or 'no explanation'}"),
        http_status=refusal.status,
        retry_after=_retry_after(refusal, error),
        request_id=request_id_of(refusal.headers),
        is_exhausted=refusal.status == 402 or _is_exhausted(error),
    )
    failure.error_body = refusal.body
    return failure


def error_failure(refusal: ErrorResponse) -> ModelFailure:
    """Build the failure for an error inside a successful HTTP reply; without a known word it may be retried."""
    error = _error_object(refusal.body)
    wording, status = _wording(error, refusal.body), _embedded_status(error)
    worded = worded_code(status, wording, error)
    failure = ModelFailure(
        _word_code(error) or worded or (_status_code(status) if status else "internal_error"),
        shorten(f"an error inside the reply of '{refusal.provider}': {wording or 'no explanation'}"),
        http_status=refusal.status,
        retry_after=_retry_after(refusal, error),
        request_id=request_id_of(refusal.headers),
        is_exhausted=_is_exhausted(error),
    )
    failure.error_body = refusal.body
    return failure


def exception_failure(problem: BaseException, *, provider: str) -> ModelFailure:
    """Build the failure for an exception of the network or of a client library."""
    names = [kind.__name__ for kind in type(problem).__mro__]
    code = next((EXCEPTION_CODES[name] for name in names if name in EXCEPTION_CODES), "internal_error")
    return ModelFailure(code, shorten(f"'{provider}' gave no answer: {str(problem) or names[0]}"))


def reason_of(problem: OSError) -> str:
    """Return the operating system's reason for a failed connection; asyncio's message has only the address."""
    if problem.errno and not isinstance(problem, gaierror | SSLError):
        return os.strerror(problem.errno)
    return problem.strerror or str(problem)


def shorten(text: str) -> str:
    """Clean and shorten a text to one line that every artifact can hold."""
    clean = _CONTROLS.sub("", " ".join(text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd").split()))
    return clean if len(clean) <= MAX_MESSAGE else f"{clean[: MAX_MESSAGE - 1]}…"


def request_id_of(headers: Mapping[str, str]) -> str:
    """Read the provider's request id from the headers."""
    return shown_id(headers.get("x-request-id") or headers.get("request-id") or headers.get("x-amzn-requestid") or "")


def shown_id(request_id: str) -> str:
    """Clean and shorten a request id."""
    clean = _CONTROLS.sub("", request_id.replace("\x00", "\ufffd"))
    return clean if len(clean) <= MAX_REQUEST_ID else f"{clean[: MAX_REQUEST_ID - 1]}…"


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    """Parse either form of Retry-After into seconds; None for invalid and negative values."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        return _seconds_until(value)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _seconds_until(date: str) -> float | None:
    try:
        # Imported here: dates are rare, and the import loads much of the e-mail package.
        parsed: datetime = import_module("email.utils").parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _status_code(status: int) -> str:
    if status in STATUS_CODES:
        return STATUS_CODES[status]
    if status >= 500:
        return "service_unavailable"
    return "redirect_refused" if 300 <= status < 400 else "refused"


def _error_object(body: object) -> JsonObject:
    """Find the error inside a body: `{"error": {...}}`, the same in a list, `{"error": "..."}`, or the body itself."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    error = body.get("error", body) if isinstance(body, dict) else {}
    if isinstance(error, dict):
        return error
    return {"message": error} if isinstance(error, str) else {}


def _word_code(error: Mapping[str, object]) -> str:
    words = [word for word in (error.get("code"), error.get("type"), error.get("status")) if isinstance(word, str)]
    return next((ERROR_WORDS[word] for word in words if word in ERROR_WORDS), "")


def _embedded_status(error: Mapping[str, object]) -> int:
    """Read the upstream status that some gateways put into the error; 0 for none."""
    status = error.get("code")
    is_status = isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600
    return status if is_status and isinstance(status, int) else 0


def _retry_after(refusal: ErrorResponse, error: Mapping[str, object]) -> float | None:
    delay = parse_retry_after(refusal.headers)
    return wait_of(_wording(error, refusal.body), error) if delay is None else delay


def _is_exhausted(error: Mapping[str, object]) -> bool:
    message = error.get("message")
    if isinstance(message, str) and is_out_of_quota(message, error):
        return True
    return any(word in _EXHAUSTED_WORDS for word in (error.get("code"), error.get("type")) if isinstance(word, str))


def _wording(error: Mapping[str, object], body: object) -> str:
    message = error.get("message") or error.get("Message") or error.get("detail")
    if isinstance(message, str):
        return message
    return body if isinstance(body, str) else msgspec.json.encode(body).decode() if body is not None else ""
