"""The OpenAPI document, made from what every address says of itself: its query, its answer and its errors."""

import re
from collections.abc import Iterator, Mapping

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from assay.core import http_answers
from assay.core.canonical import JsonObject
from assay.core.http_answers import ErrorAnswer
from assay.core.version import __version__
from assay.surfaces.server.errors import CODES
from assay.surfaces.server.middleware import OPEN_PATHS

REASONS = {
    200: "Success.",
    202: "Accepted.",
    206: "A part of the file.",
    304: "It has not changed.",
    400: "The request is invalid.",
    401: "The API key is missing or unknown.",
    403: "The API key, the host or the settings do not allow this.",
    404: "Not found.",
    409: "It conflicts with an existing object.",
    410: "It was removed by retention; what is left is listed with the artifacts.",
    412: "The file is not the one that If-Match names.",
    413: "The payload is too large.",
    414: "The address is too long.",
    415: "The content type or encoding is not supported.",
    416: "The range is outside of the file.",
    429: "Too many requests; Retry-After gives the seconds to wait.",
    500: "Internal error of the service.",
    503: "Temporarily unavailable; Retry-After gives the seconds to wait.",
}
_NAMES = {
    "ArtifactFile": "ArtifactView",
    "RunStatus": "RunResponse",
    "ScoreDistribution": "Distribution",
    "SubmissionResponse": "Accepted",
    "ValidationResponse": "Checked",
}
"""Names of answers in the document, where they are not those of Python: clients made from it depend on them."""
_OPEN = ("RunCounts", "GateResult", "GateCheck", "RunListing")
"""Parts of answers that the document describes as objects of any members: their members may change."""
_SCHEMAS = "#/components/schemas/"
_PARAMETER = re.compile(r"\{(\w+):\w+\}")
_PLACES = {"run_id": "The id of a run.", "record_id": "The id of a record, or its index.", "name": "The name of an artifact."}
_DESCRIPTION = (
    "Validate datasets, run them against models, and read the results. Every error has the same envelope; every response has "
    "`x-request-id` and `x-latency-ms`. An API key goes into `x-api-key` or `Authorization: Bearer`."
)

SpecObject = JsonObject
"""An object of the OpenAPI document, whose members its specification defines."""


def openapi(app: Litestar) -> dict[str, object]:
    """Build the document of an application's addresses."""
    # Sorted, so that the document is the same in any order of registration.
    operations = sorted(_operations(app), key=lambda entry: (entry[0], entry[1]))
    # All structs that any address names; the rest of the components follows from them.
    kinds = {kind for _, _, handler in operations for kind in (handler.opt["query"], handler.opt["answer"]) if _is_struct(kind)}
    ordered = sorted({*kinds, ErrorAnswer}, key=_name_of)
    _, found = msgspec.json.schema_components(ordered, ref_template=f"{_SCHEMAS}{{name}}")
    for kind in filter(_is_struct, vars(http_answers).values()):
        # Answers that leave defaults out have optional members by design.
        if kind.__name__ in found and not kind.__struct_config__.omit_defaults:
            _require_members(found[kind.__name__])
    components = {_NAMES.get(name, name): _published(schema) for name, schema in found.items() if name not in _OPEN}
    paths: SpecObject = {}
    for path, method, handler in operations:
        paths.setdefault(path, {})[method] = _operation(path, method, handler=handler, components=components)
    # Queries are described by parameters; as schemas they would be listed twice.
    shown = {name: schema for name, schema in components.items() if not name.endswith("Query")}
    return {
        "openapi": "3.1.0",
        "info": {"title": "assay", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": shown,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        # An empty entry: without keys the service needs none.
        "security": [{}, {"key": []}, {"bearer": []}],
    }


def _require_members(schema: SpecObject) -> None:
    """Require every member of an answer: defaults are for clients of older services. A constant needs no mention."""
    for member in schema["properties"].values():
        if len(member.get("enum", ())) != 1:
            member.pop("default", None)
    schema["required"] = [name for name, member in schema["properties"].items() if "default" not in member]


def _published(schema: object) -> object:
    """Give references, and the titles of schemas, the names of the document; open parts become objects."""
    if isinstance(schema, list):
        return [_published(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref", "").removeprefix(_SCHEMAS)
    if reference in _OPEN:
        return {"type": "object"}
    if reference:
        return {**schema, "$ref": f"{_SCHEMAS}{_NAMES.get(reference, reference)}"}
    found = {name: _published(member) for name, member in schema.items()}
    if schema.get("title") in _NAMES:
        found["title"] = _NAMES[schema["title"]]
    return found


def _name_of(kind: type) -> str:
    return _NAMES.get(kind.__name__, kind.__name__)


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operations(app: Litestar) -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            # A handler without `query` is a page for people, and no part of the interface.
            if isinstance(handler, HTTPRouteHandler) and "query" in handler.opt:
                for method in handler.http_methods - {"OPTIONS"}:
                    # OPTIONS is answered by the framework for every address.
                    yield (
                        _PARAMETER.sub(r"{\1}", route.path_format if hasattr(route, "path_format") else route.path),
                        method.lower(),
                        handler,
                    )


def _operation(path: str, method: str, *, handler: HTTPRouteHandler, components: SpecObject) -> dict[str, object]:
    # The framework wraps handlers that run in threads, and the wrapper has its own docstring.
    summary = " ".join((getattr(handler.fn, "func", handler.fn).__doc__ or "").split())
    query = components[handler.opt["query"].__name__]
    found: SpecObject = {
        "operationId": handler.handler_name,
        "summary": summary,
        "tags": [_tag(path)],
        "parameters": [*_path_parameters(path), *_query_parameters(query), *_headers(path, method)],
        "responses": {str(status): _response(status, handler) for status in _statuses(path, handler)},
    }
    if handler.opt.get("takes_dataset"):
        schema: SpecObject = {"description": "A dataset of the contract in the query."}
        content = {"schema": schema if path == "/v1/validate" else {**schema, "type": "object"}}
        found["requestBody"] = {"required": True, "content": {"application/json": content}}
    return found


def _tag(path: str) -> str:
    # Grouped by what a reader is looking for, and not by module.
    parts = [part for part in path.split("/") if part and not part.startswith("{")]
    return "service" if parts[0] != "v1" else {"runs": "runs", "validate": "datasets"}.get(parts[1], "decisions")


def _path_parameters(path: str) -> Iterator[dict[str, object]]:
    for name in re.findall(r"\{(\w+)\}", path):
        schema = {"type": "string", "minLength": 1}
        yield {"name": name, "in": "path", "required": True, "description": _PLACES[name], "schema": schema}


def _query_parameters(query: SpecObject) -> Iterator[dict[str, object]]:
    for name, schema in query["properties"].items():
        required = name in query.get("required", ())
        # Null means "not given" in our structs; in a query that is a missing parameter.
        shown = {key: value for key, value in schema.items() if key != "description"}
        shown["anyOf"] = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
        if not shown["anyOf"]:
            del shown["anyOf"]
        if shown.get("default", 0) is None:
            del shown["default"]
        yield {"name": name, "in": "query", "required": required, "description": schema.get("description", ""), "schema": shown}


def _headers(path: str, method: str) -> Iterator[dict[str, object]]:
    if (path, method) == ("/v1/runs", "post"):
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]*[!-~][ -~]*$"}
        text = "The same key and body never make two runs; another body under it is a conflict."
        yield {"name": "Idempotency-Key", "in": "header", "required": False, "description": text, "schema": schema}
    if path.endswith("/events"):
        text = "The id of the last event that was seen."
        yield {"name": "Last-Event-ID", "in": "header", "required": False, "description": text, "schema": {"type": "string"}}


def _statuses(path: str, handler: HTTPRouteHandler) -> list[int]:
    # These can happen with every address.
    errors = {*handler.opt.get("errors", ()), 400, 403, 500, 503}
    if path not in OPEN_PATHS:
        errors |= {401, 429}
    if path.endswith("/artifacts/{name}"):
        errors |= {206, 304}
    # Only parameters make an address long: ids that are too long for one are unknown, and a 404 as any.
    if msgspec.structs.fields(handler.opt["query"]):
        errors.add(414)
    return sorted({handler.status_code, *errors})


def _response(status: int, handler: HTTPRouteHandler) -> dict[str, object]:
    shown: SpecObject = {"description": REASONS[status]}
    # 304 has no body (RFC 9110 15.4.5).
    if status == 304:
        return shown
    answer = handler.opt["answer"]
    if status in CODES or status >= 400:
        shown["content"] = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}ErrorAnswer"}}}
    elif _is_struct(answer):
        shown["content"] = {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{_name_of(answer)}"}}}
    else:
        shown["content"] = {media_type: {} for media_type in handler.opt.get("media_types", ("*/*",))}
    return shown


HEAD = """# HTTP

Every address of `assay serve`. This page is made from the OpenAPI document that the server has at `/openapi.json`. [Use the
server](../how-to/use-the-server.md) shows how to combine the endpoints, and what to do about each error code.

Every answer has `x-request-id` and `x-latency-ms`; every error has the shape of [ErrorAnswer](#erroranswer). A key goes into
`x-api-key` or `Authorization: Bearer`.
"""


def reference(document: SpecObject) -> str:
    """Render the reference page of an OpenAPI document."""
    parts = [HEAD]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts += [
                f"\n## `{method.upper()} {path}`\n",
                f"\n{operation['summary']}\n",
                *_parameters(operation),
                *_answers(operation),
            ]
    parts.append("\n## Shapes\n")
    for name, schema in document["components"]["schemas"].items():
        parts += [f"\n### {name}\n", f"\n{schema.get('description', '')}\n", *_members(schema)]
    return "".join(parts)


def _parameters(operation: SpecObject) -> Iterator[str]:
    if operation["parameters"]:
        yield "\n| parameter | in | type | meaning |\n|---|---|---|---|\n"
    for entry in operation["parameters"]:
        meaning = entry["description"] + (" Required." if entry["required"] and entry["in"] != "path" else "")
        yield f"| `{entry['name']}` | {entry['in']} | {_type(entry['schema'])}{_default(entry['schema'])} | {meaning} |\n"


def _answers(operation: SpecObject) -> Iterator[str]:
    yield "\n| answer | with | meaning |\n|---|---|---|\n"
    for status, answer in operation["responses"].items():
        shapes = ", ".join(_shape(media_type, content) for media_type, content in answer.get("content", {}).items())
        yield f"| {status} | {shapes} | {answer['description']} |\n"


def _shape(media_type: str, content: SpecObject) -> str:
    return _type(content["schema"]) if "schema" in content else f"`{media_type}`"


def _members(schema: SpecObject) -> Iterator[str]:
    if schema.get("properties"):
        yield "\n| member | type | meaning |\n|---|---|---|\n"
    for name, member in schema.get("properties", {}).items():
        yield f"| `{name}` | {_type(member)} | {member.get('description', '')} |\n"


def _type(schema: SpecObject) -> str:
    """Describe a schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}" if schema.get("items") else "list"
    return str(schema.get("type", "any")) + _range(schema)


def _range(schema: Mapping[str, object]) -> str:
    """Format the bounds of a number: `, 1 to 1,000`; empty without bounds."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None:
        return ""
    return f", {least:,} or more" if most is None else f", {least:,} to {most:,}"


def _default(schema: Mapping[str, object]) -> str:
    """Format the default of a parameter."""
    default = schema.get("default")
    # False is shown, None is not: it is not a default that a client could send.
    return "" if default in (None, (), []) else f"; `{default}` by default"
