"""Messages without the server's folders: clients see names of files, not where the server stores them."""

import logging
import re
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import HTTPScope

from assay import api
from assay.core.canonical import JsonObject, json_text
from assay.core.errors import (
    ArtifactGone,
    AssayError,
    MissingExtra,
    RunDamaged,
    RunNotFound,
    RunSealed,
    SourceUnreadable,
    StoreUnavailable,
    UsageProblem,
)
from assay.surfaces.observers import FIELDS
from assay.surfaces.pages.page_renderer import PageViewer, ServerLinks, page, problem_view
from assay.surfaces.server.keys import Caller, own_page

_UPLOAD = re.compile(r"[^\s'\"]*\.active/[^/\s'\"]+/upload/")
"""Matches the private folder of an upload, in any spelling of the path."""
_TEMPORARY = re.compile(r"[^\s'\"]*\.server/temporary/[^/\s'\"]+/")


def without_folders(message: str, *folders: Path | None) -> str:
    """Shorten paths in these folders to relative ones, and uploads to their names."""
    message = _TEMPORARY.sub("", _UPLOAD.sub("", message))
    written = {str(form) for folder in folders if folder is not None for form in (folder, folder.absolute(), folder.resolve())}
    # The longest first: one folder may be inside another.
    for folder in sorted(written - {"/", "."}, key=len, reverse=True):
        # A relative folder such as `runs` is also part of our own URLs, so it counts only at the start of a path.
        begins = "" if folder.startswith("/") else r"(?<![\w./~-])"
        message = re.sub(f"{begins}{re.escape(folder)}/", "", message)
        # `re.sub` reads backslashes in the replacement.
        message = re.sub(f"{begins}{re.escape(folder)}", Path(folder).name.replace("\\", r"\\"), message)
    return message


CODES: dict[int, str] = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    410: "not_found",
    413: "payload_too_large",
    429: "rate_limited",
    500: "internal_error",
    503: "service_unavailable",
}
"""Error code of each status; others below 500 are `invalid_request`."""
# The first class that fits counts, so subclasses come before their base.
STATUSES: tuple[tuple[type[AssayError], int], ...] = (
    (ArtifactGone, 410),
    (RunNotFound, 404),
    (RunSealed, 409),
    (RunDamaged, 500),
    (StoreUnavailable, 503),
    (UsageProblem, 400),
    (SourceUnreadable, 400),
    # The service lacks an extra, which is like an address that is not there.
    (MissingExtra, 404),
)
RETRY_SECONDS = 5
"""Retry-After when the service cannot accept a request now."""

PAGE_HEADERS = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    # Without any referrer a browser would send no origin with this server's own forms.
    "referrer-policy": "same-origin",
    # Pages that open this one get no handle on it.
    "cross-origin-opener-policy": "same-origin",
}
"""Headers of every page: it may load what this server serves, and nothing else."""

AnyRequest = Request[Any, Any, Any]
"""A request with any user and state, whose types Litestar leaves open."""

log = logging.getLogger("assay.server")


class HttpError(Exception):
    """An exception that is answered with an error."""

    def __init__(
        self, status: int, message: str, *, details: JsonObject | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.details = details or {}
        self.headers = headers or {}


def envelope(status: int, message: str, *, request_id: str, details: Mapping[str, object]) -> bytes:
    """Build the body of an error; it always has `details`, so that a client reads every error the same way."""
    code = CODES.get(status, CODES[500] if status >= 500 else CODES[400])
    return json_text({"error": {"code": code, "message": message, "details": details}, "request_id": request_id}).encode()


class RenderedError(msgspec.Struct, frozen=True):
    """An error as it is sent."""

    body: bytes
    headers: dict[str, str]


def render_error(refusal: HttpError, scope: HTTPScope, *, request_id: str, headers: Mapping[str, str]) -> RenderedError:
    """Render an error as the envelope, or as a page for a browser."""
    path = scope["path"]
    # Below /v1/ the answer is always JSON, regardless of what the client accepts.
    if "text/html" not in headers.get("accept", "") or path.startswith("/v1/"):
        body = envelope(refusal.status, refusal.message, request_id=request_id, details=refusal.details)
        return RenderedError(body, {"content-type": "application/json", **refusal.headers})
    details = refusal.details
    is_asked_for = scope["method"] == "GET"
    # Only a path of this server: an address from a form could otherwise lead anywhere after signing in.
    target = own_page(_asked(scope) if is_asked_for else str(details.get("next", "")))
    hint = str(details.get("hint", ""))
    # A browser's user gets advice; a program gets the precise reason.
    message = "This server needs an API key" if refusal.status == 401 else refusal.message
    view = problem_view(refusal.status, message, request_id=request_id, hint=hint, next_page=target)
    caller: Caller | None = scope.get("state", {}).get("caller")
    reader = PageViewer() if caller is None else PageViewer(name=caller.name, is_signed_in=caller.is_signed_in)
    text = page("problem.html", view, place=ServerLinks(), reader=reader)
    # SameSite: a link from another site arrives without the cookie, which the browser sends once the page itself reloads.
    is_led_here = refusal.status == 401 and is_asked_for and headers.get("sec-fetch-site") == "cross-site"
    again = {"refresh": f"0; url={target}"} if is_led_here else {}
    return RenderedError(text.encode(), {**PAGE_HEADERS, **again, **refusal.headers})


def _asked(scope: HTTPScope) -> str:
    """Return the address of a request as it was sent."""
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def answer_refusal(request: AnyRequest, refusal: HttpError) -> Response[bytes]:
    """Answer one of our own refusals."""
    shown = render_error(refusal, request.scope, request_id=request_id_of(request), headers=request.headers)
    return Response(shown.body, status_code=refusal.status, headers=shown.headers)


def answer_library_error(request: AnyRequest, problem: AssayError) -> Response[bytes]:
    """Answer an error of the library, by its class."""
    status = next((status for kind, status in STATUSES if isinstance(problem, kind)), 500)
    # Messages name paths of this machine, which are none of a client's business.
    redact = request.app.state.server.redact_paths
    details: JsonObject = {"hint": redact(problem.hint)} if problem.hint else {}
    if isinstance(problem, api.PlanProblems):
        details["errors"] = list(map(redact, problem.problems))
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}
    return answer_refusal(request, HttpError(status, redact(problem.message), details=details, headers=headers))


def answer_framework_error(request: AnyRequest, problem: HTTPException) -> Response[bytes]:
    """Answer refusals of the framework: unknown addresses, wrong methods, unreadable parameters."""
    messages = {
        404: f"there is nothing at '{request.scope['path'][:200]}'",
        405: f"{request.method} is not allowed here",
    }
    message = messages.get(problem.status_code, problem.detail)
    headers = dict(problem.headers or {})
    details: JsonObject = {"errors": problem.extra} if isinstance(problem.extra, list) and problem.extra else {}
    if problem.status_code == 404:
        details["hint"] = "/docs lists the addresses"
    elif problem.status_code == 405:
        details["hint"] = "the header Allow lists the methods of this address"
    return answer_refusal(request, HttpError(problem.status_code, message, details=details, headers=headers))


def answer_defect(request: AnyRequest, problem: Exception) -> Response[bytes]:
    """Answer a defect; the log has the details."""
    request_id = request_id_of(request)
    fields = {"event": "request_failed", "request_id": request_id, "code": "internal_error"}
    log.error("request %s failed", request_id, exc_info=problem, extra={FIELDS: fields})
    # Nothing of the exception: it may quote a prompt, a path or a setting.
    return answer_refusal(request, HttpError(500, "internal error; see the server log"))


def request_id_of(request: AnyRequest) -> str:
    """Return the id under which this request is logged and answered."""
    found: str = request.scope["state"]["request_id"]
    return found


def whole_answer(status: int, reason: str, headers: Mapping[str, str]) -> bytes:
    """Build the bytes of an answer to input that never became a request."""
    # The input had no header that could have carried one.
    request_id = str(uuid.uuid4())
    body = envelope(status, reason, request_id=request_id, details={})
    shown = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        "x-request-id": request_id,
        "x-latency-ms": "0.0",
        "connection": "close",
        **headers,
    }
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{name}: {value}" for name, value in shown.items()), "", ""]
    return "\r\n".join(lines).encode() + body
