"""Signing in with a key in a browser, and out again."""

import re

import msgspec
from litestar import Response, post

from assay.surfaces.server.errors import HttpError
from assay.surfaces.server.forms import FORM_BYTES, read_fields
from assay.surfaces.server.queries import AnyRequest
from assay.surfaces.server.server import Answer, server_of
from assay.surfaces.server.sessions import FIRST_PAGE, cookie, own_page, token_in


class SignInForm(msgspec.Struct, frozen=True, kw_only=True):
    """What the form for a key sends."""

    key: str = ""
    next: str = ""
    """The page that asked for the key."""


@post("/sign-in", status_code=303, request_max_body_size=FORM_BYTES)
async def sign_in(request: AnyRequest) -> Answer:
    """Take a key, and lead to the page that asked for it."""
    form = await read_fields(request, SignInForm)
    target = own_page(form.next)
    token = server_of(request).sessions.begin(form.key.strip())
    if token is None:
        raise HttpError(
            401, "that key is not known", details={"hint": "that key is not known; keys begin with assay_", "next": target}
        )
    return _led(target, cookie(token, is_secure=is_secure(request)))


@post("/sign-out", status_code=303)
async def sign_out(request: AnyRequest) -> Answer:
    """Forget the session of this browser."""
    server_of(request).sessions.end(token_in(request.headers.get("cookie", "")))
    return _led(FIRST_PAGE, cookie("", is_secure=is_secure(request)))


def is_secure(request: AnyRequest) -> bool:
    """True when the browser reached this server over TLS, directly or through a proxy.

    A proxy says so in X-Forwarded-Proto or Forwarded (RFC 7239), and where it does not, the browser's own Origin does. A client
    that lies only makes its own cookie stricter, so these headers are taken from any sender.
    """
    headers = request.headers
    forwarded = {value.strip().lower() for value in headers.get("x-forwarded-proto", "").split(",")}
    pairs = (pair.partition("=") for pair in re.split("[;,]", headers.get("forwarded", "").lower()))
    forwarded |= {value.strip().strip('"') for name, _, value in pairs if name.strip() == "proto"}
    is_secure_origin = headers.get("origin", "").lower().startswith("https://")
    return request.url.scheme == "https" or "https" in forwarded or is_secure_origin


def _led(target: str, set_cookie: str) -> Answer:
    return Response(b"", status_code=303, headers={"Location": target, "Set-Cookie": set_cookie})


HANDLERS = (sign_in, sign_out)
