"""Server-sent events into values."""

from collections.abc import Iterable, Iterator

import msgspec

from assay.api.client.http_transport import UNEXPECTED
from assay.core.errors import ServerProblem
from assay.core.http_answers import RunEvent


def events_in(lines: Iterable[bytes]) -> Iterator[RunEvent]:
    """Every whole event; one that is cut off is left to the next connection. Raises ServerProblem for one that cannot be read."""
    members: dict[str, str] = {}
    for raw in lines:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line:
            name, _, value = line.partition(":")
            # Comments have no name; they only keep the connection alive.
            members[name] = value.removeprefix(" ")
        elif "data" in members:
            yield _event(members)
            members = {}


def _event(members: dict[str, str]) -> RunEvent:
    try:
        told = msgspec.json.decode(members["data"].encode(), type=dict)
        is_end = members.get("event") in ("end", "stopped")
        return msgspec.convert({**told, "id": members.get("id", ""), "is_end": is_end}, RunEvent)
    except (msgspec.DecodeError, msgspec.ValidationError) as problem:
        raise ServerProblem(f"an event cannot be used: {problem}", code=UNEXPECTED) from problem
