"""The service itself: health, counters, OpenAPI, and signing in."""

import os
import re
import shutil
from html import escape

import msgspec
from litestar import Response, get, post

from assay.core.http_answers import Health
from assay.core.version import __version__
from assay.surfaces.server.errors import RETRY_SECONDS, AnyRequest, HttpError, request_id_of
from assay.surfaces.server.keys import FIRST_PAGE, cookie, own_page, token_in
from assay.surfaces.server.middleware import METRICS_CONTENT_TYPE
from assay.surfaces.server.openapi import SpecObject, openapi
from assay.surfaces.server.queries import NoQuery, read_query
from assay.surfaces.server.server import BytesResponse, caller_of, json_response, server_of
from assay.surfaces.server.uploads import FORM_BYTES, read_fields


@get("/healthz", query=NoQuery, answer=Health)
async def healthz(request: AnyRequest) -> BytesResponse:
    """Report that the process answers."""
    read_query(request, NoQuery)
    return json_response(Health(status="ok", version=__version__, request_id=request_id_of(request)))


@get("/readyz", sync_to_thread=True, query=NoQuery, answer=Health, errors=(503,))
def readyz(request: AnyRequest) -> BytesResponse:
    """Report whether a run could start now: there is room in the queue and on the disk, runs can be written, the ledger answers."""
    read_query(request, NoQuery)
    server = server_of(request)
    if not os.access(server.runs_dir, os.W_OK):
        raise HttpError(503, "the folder of the runs cannot be written", headers={"Retry-After": str(RETRY_SECONDS)})
    # A run needs room for its upload at least.
    if shutil.disk_usage(server.runs_dir).free < server.settings.max_bytes:
        raise HttpError(503, "the disk of the runs is full", headers={"Retry-After": str(RETRY_SECONDS)})
    if server.shared is not None:
        server.shared.check()
    # A place in the queue is part of being ready; it is given back at once.
    with server.queue.reserve():
        return json_response(Health(status="ok", version=__version__, request_id=request_id_of(request)))


@get("/metrics", sync_to_thread=True, query=NoQuery, answer=str, media_types=("text/plain",))
def metrics(request: AnyRequest) -> BytesResponse:
    """Return all metrics for Prometheus, over the runs of all projects."""
    read_query(request, NoQuery)
    # Counters are over all runs, and some labels are names of models.
    if not server_of(request).sees_every_run(caller_of(request)):
        raise HttpError(403, "the figures are about the runs of all projects: this needs a key with the scope 'admin'")
    return Response(server_of(request).meters.text(), media_type=METRICS_CONTENT_TYPE)


_SHEET = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .4rem 0; border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
code { font: .9em ui-monospace, monospace; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
td, th { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top; }
"""


@get("/openapi.json", query=NoQuery, answer=dict, media_types=("application/json",))
async def openapi_document(request: AnyRequest) -> BytesResponse:
    """Return the OpenAPI document of this service."""
    read_query(request, NoQuery)
    return json_response(openapi(request.app))


@get("/docs", query=NoQuery, answer=str, media_types=("text/html",))
async def docs_page(request: AnyRequest) -> BytesResponse:
    """Return the reference of this service as a page without scripts or external files."""
    read_query(request, NoQuery)
    return Response(page(openapi(request.app)).encode(), media_type="text/html")


@get("/docs/style.css", query=NoQuery, answer=str, media_types=("text/css",))
async def docs_style(request: AnyRequest) -> BytesResponse:
    """Return the style of that page."""
    read_query(request, NoQuery)
    return Response(_SHEET.encode(), media_type="text/css")


def page(document: SpecObject) -> str:
    """Render an OpenAPI document as HTML."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>assay: addresses</title>",
        "<meta name='viewport' content='width=device-width'><link rel='stylesheet' href='/docs/style.css'></head><body><main>",
        f"<h1>assay {escape(document['info']['version'])}</h1><p>{_marked_up(document['info']['description'])}</p>",
        "<p>The same for programs: <a href='/openapi.json'>openapi.json</a></p>",
    ]
    for path, methods in document["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in methods.items()]
    return "".join([*parts, "</main></body></html>"])


# The texts are ours, and are escaped nevertheless: names of parameters come from settings.
def _marked_up(text: str) -> str:
    """Render a text of the document as HTML: backticks mark code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _operation(path: str, method: str, operation: SpecObject) -> str:
    head = f"<summary><code>{method.upper()} {escape(path)}</code> {_marked_up(operation['summary'])}</summary>"
    rows = "".join(
        f"<tr><td><code>{escape(entry['name'])}</code></td><td>{escape(entry['in'])}</td><td>{_marked_up(entry['description'])}</td></tr>"
        for entry in operation["parameters"]
    )
    answers = "".join(
        f"<tr><td><code>{status}</code></td><td>{_marked_up(answer['description'])}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    parameters = f"<table><tr><th>parameter</th><th>in</th><th>meaning</th></tr>{rows}</table>" if rows else ""
    return f"<details>{head}{parameters}<table><tr><th>answer</th><th>meaning</th></tr>{answers}</table></details>"


class SignInForm(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of the form for an API key."""

    key: str = ""
    next: str = ""
    """Page that asked for the key."""


@post("/sign-in", status_code=303, request_max_body_size=FORM_BYTES)
async def sign_in(request: AnyRequest) -> BytesResponse:
    """Take a key, and lead to the page that asked for it."""
    form = await read_fields(request, SignInForm)
    target = own_page(form.next)
    # A key that was pasted may have blanks around it.
    token = server_of(request).sessions.begin(form.key.strip())
    if token is None:
        raise HttpError(
            401, "that key is not known", details={"hint": "that key is not known; keys begin with assay_", "next": target}
        )
    return _redirect(target, cookie(token, is_secure=is_secure(request)))


@post("/sign-out", status_code=303)
async def sign_out(request: AnyRequest) -> BytesResponse:
    """End the session of this browser."""
    server_of(request).sessions.end(token_in(request.headers.get("cookie", "")))
    return _redirect(FIRST_PAGE, cookie("", is_secure=is_secure(request)))


def is_secure(request: AnyRequest) -> bool:
    """Return whether the browser reached this server over TLS, directly or through a proxy.

    A proxy says so in X-Forwarded-Proto or Forwarded (RFC 7239), and where it does not, the browser's own Origin does. A client
    that lies only makes its own cookie stricter, so these headers are taken from any sender.
    """
    headers = request.headers
    forwarded = {value.strip().lower() for value in headers.get("x-forwarded-proto", "").split(",")}
    pairs = (pair.partition("=") for pair in re.split("[;,]", headers.get("forwarded", "").lower()))
    forwarded |= {value.strip().strip('"') for name, _, value in pairs if name.strip() == "proto"}
    # Browsers send Origin with a form, and the scheme in it is what the reader sees in the address bar.
    is_secure_origin = headers.get("origin", "").lower().startswith("https://")
    return request.url.scheme == "https" or "https" in forwarded or is_secure_origin


def _redirect(target: str, set_cookie: str) -> BytesResponse:
    return Response(b"", status_code=303, headers={"Location": target, "Set-Cookie": set_cookie})


HANDLERS = (healthz, readyz, metrics, openapi_document, docs_page, docs_style, sign_in, sign_out)
