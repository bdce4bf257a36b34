"""Plain values into JSON text that any strict reader takes."""

from typing import Any

import msgspec

from assay.surfaces.printable import encodable


def json_text(value: Any, *, indent: int = 0) -> str:
    """Compact JSON, or indented; lone surrogates become U+FFFD, non-finite numbers null."""
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_encodable(value))
    return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return encodable(value)
        case dict():
            return {_encodable(key): _encodable(member) for key, member in value.items()}
        case list() | tuple():
            return [_encodable(member) for member in value]
        case _:
            return value
