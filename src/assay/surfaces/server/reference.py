"""The OpenAPI document as a reference page in Markdown."""

from collections.abc import Iterator, Mapping

from assay.core.canonical import JsonObject

HEAD = """# HTTP

Every address of `assay serve`. This page is made from the OpenAPI document that the server has at `/openapi.json`. [Use the
server](../how-to/use-the-server.md) shows how to combine the endpoints, and what to do about each error code.

Every answer has `x-request-id` and `x-latency-ms`; every error has the shape of [ErrorAnswer](#erroranswer). A key goes into
`x-api-key` or `Authorization: Bearer`.
"""


def reference(document: JsonObject) -> str:
    """The page."""
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


def _parameters(operation: JsonObject) -> Iterator[str]:
    if operation["parameters"]:
        yield "\n| parameter | in | type | meaning |\n|---|---|---|---|\n"
    for entry in operation["parameters"]:
        meaning = entry["description"] + (" Required." if entry["required"] and entry["in"] != "path" else "")
        yield f"| `{entry['name']}` | {entry['in']} | {_type(entry['schema'])}{_default(entry['schema'])} | {meaning} |\n"


def _answers(operation: JsonObject) -> Iterator[str]:
    yield "\n| answer | with | meaning |\n|---|---|---|\n"
    for status, answer in operation["responses"].items():
        shapes = ", ".join(_shape(media_type, content) for media_type, content in answer.get("content", {}).items())
        yield f"| {status} | {shapes} | {answer['description']} |\n"


def _shape(media_type: str, content: JsonObject) -> str:
    return _type(content["schema"]) if "schema" in content else f"`{media_type}`"


def _members(schema: JsonObject) -> Iterator[str]:
    if schema.get("properties"):
        yield "\n| member | type | meaning |\n|---|---|---|\n"
    for name, member in schema.get("properties", {}).items():
        yield f"| `{name}` | {_type(member)} | {member.get('description', '')} |\n"


def _type(schema: JsonObject) -> str:
    """A schema in a few words."""
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
    """`, 1 to 1,000`; nothing where a number may be any."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is None:
        return ""
    return f", {least:,} or more" if most is None else f", {least:,} to {most:,}"


def _default(schema: Mapping[str, object]) -> str:
    """What counts where nothing is said."""
    default = schema.get("default")
    return "" if default in (None, (), []) else f"; `{default}` by default"
