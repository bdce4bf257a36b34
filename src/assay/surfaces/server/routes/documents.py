"""What the service says about itself: the OpenAPI document, and a page that lists the addresses."""

import re
from html import escape

from litestar import Response, get

from assay.core.canonical import JsonObject
from assay.surfaces.server.openapi import openapi
from assay.surfaces.server.queries import AnyRequest, NoQuery, read_query
from assay.surfaces.server.server import Answer, answered

_SHEET = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .4rem 0; border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
code { font: .9em ui-monospace, monospace; }
table { border-collapse: collapse; margin: .5rem 0 1rem; }
td, th { text-align: left; padding: .2rem 1rem .2rem 0; vertical-align: top; }
"""


@get("/openapi.json", query=NoQuery, answer=dict, media_types=("application/json",))
async def openapi_document(request: AnyRequest) -> Answer:
    """The addresses of this service as an OpenAPI document."""
    read_query(request, NoQuery)
    return answered(openapi(request.app))


@get("/docs", query=NoQuery, answer=str, media_types=("text/html",))
async def docs_page(request: AnyRequest) -> Answer:
    """The addresses of this service as a page, which runs and loads nothing from elsewhere."""
    read_query(request, NoQuery)
    return Response(page(openapi(request.app)).encode(), media_type="text/html")


@get("/docs/style.css", query=NoQuery, answer=str, media_types=("text/css",))
async def docs_style(request: AnyRequest) -> Answer:
    """How that page looks."""
    read_query(request, NoQuery)
    return Response(_SHEET.encode(), media_type="text/css")


def page(document: JsonObject) -> str:
    """An OpenAPI document as HTML."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>assay: addresses</title>",
        "<meta name='viewport' content='width=device-width'><link rel='stylesheet' href='/docs/style.css'></head><body><main>",
        f"<h1>assay {escape(document['info']['version'])}</h1><p>{_marked_up(document['info']['description'])}</p>",
        "<p>The same for programs: <a href='/openapi.json'>openapi.json</a></p>",
    ]
    for path, methods in document["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in methods.items()]
    return "".join([*parts, "</main></body></html>"])


def _marked_up(text: str) -> str:
    """A text of the document as HTML: what stands in backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _operation(path: str, method: str, operation: JsonObject) -> str:
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
