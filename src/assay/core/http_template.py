"""Templates of HTTP requests: texts with `{{prompt}}` and other values of a record, and with `${VARIABLE}` of the environment.

A value is data: it is put in once, never evaluated, and what it holds is not read as a template again.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

PLAIN_SLOTS = ("prompt", "system", "messages", "attachments", "session", "record_id", "model")
"""Names of values besides the members of `metadata`."""
METADATA = "metadata"
_TOKEN = re.compile(r"\{\{\s*(?P<slot>[^{}]*?)\s*\}\}|\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)\}")

_encode = msgspec.json.Encoder().encode


class OmittedValue:
    """Marks a value that is not known yet: the member that it alone would fill is left out."""


OMITTED = OmittedValue()
Values = Callable[[str], Any]
"""Looks up the value of a slot."""


def slots_in(template: object) -> tuple[str, ...]:
    """List the slots of a template, each once."""
    return tuple(
        dict.fromkeys(match["slot"] for text in _texts(template) for match in _TOKEN.finditer(text) if match["slot"] is not None)
    )


def variables_in(template: object) -> tuple[str, ...]:
    """List the environment variables of a template, each once."""
    return tuple(
        dict.fromkeys(match["variable"] for text in _texts(template) for match in _TOKEN.finditer(text) if match["variable"])
    )


def without_tokens(text: str) -> str:
    """Return the fixed parts of a template."""
    return _TOKEN.sub("", text)


def slot_problem(slot: str) -> str:
    """Return why a slot has no value; empty if it has one."""
    if slot in (*PLAIN_SLOTS, METADATA) or (slot.startswith(f"{METADATA}.") and all(slot.split("."))):
        return ""
    known = ", ".join(f"{{{{{name}}}}}" for name in (*PLAIN_SLOTS, "metadata.NAME"))
    return f"'{{{{{slot}}}}}' stands for no value; known are {known}"


def fill(template: object, values: Values, environ: Mapping[str, str]) -> Any:
    """Fill a JSON template: a text that is one slot alone becomes its value, of any type."""
    if isinstance(template, str):
        return _fill_value(template, values, environ)
    if isinstance(template, dict):
        filled = {name: fill(member, values, environ) for name, member in template.items()}
        return {name: member for name, member in filled.items() if member is not OMITTED}
    if isinstance(template, list):
        return [member for member in (fill(item, values, environ) for item in template) if member is not OMITTED]
    return template


def fill_text(template: str, values: Values, environ: Mapping[str, str], *, quote: Callable[[str], str] = str) -> str:
    """Fill a template of text, such as a URL or a header; `quote` escapes each value."""

    def replaced(match: re.Match[str]) -> str:
        if match["variable"]:
            return quote(environ.get(match["variable"], "").strip())
        value = values(match["slot"])
        return "" if value is OMITTED else quote(_as_text(value))

    return _TOKEN.sub(replaced, template)


def _fill_value(template: str, values: Values, environ: Mapping[str, str]) -> Any:
    match = _TOKEN.fullmatch(template)
    if match is not None and match["slot"] is not None:
        return values(match["slot"])
    return fill_text(template, values, environ)


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _texts(template: object) -> Iterator[str]:
    if isinstance(template, str):
        yield template
    elif isinstance(template, dict):
        for member in template.values():
            yield from _texts(member)
    elif isinstance(template, list | tuple):
        for member in template:
            yield from _texts(member)
