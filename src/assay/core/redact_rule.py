"""A custom redaction rule, as run files and server settings state it."""

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

REDACTION_MARK = re.compile(r"\[REDACTED:[^\]]*\]")
"""What a redactor leaves in place of a text. A stored document has no other sign of it."""


class RedactRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A custom redaction rule: what its pattern finds is replaced by `[REDACTED:name]`."""

    name: Annotated[
        Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,39}$", title="up to 40 small letters, digits and underscores")],
        Meta(description="Name of the rule, as it stands in the replaced text and in the manifest's counts."),
    ]
    pattern: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1000)],
        Meta(description="Regular expression in the syntax of RE2: all that it finds is replaced."),
    ]


def is_redacted(value: object) -> bool:
    """Return whether a redactor has replaced a part of a struct or a JSON-like value."""
    match value:
        case str():
            return REDACTION_MARK.search(value) is not None
        case Mapping():
            return any(is_redacted(name) or is_redacted(member) for name, member in value.items())
        case list() | tuple():
            return any(map(is_redacted, value))
        case msgspec.Struct():
            return is_redacted(msgspec.structs.asdict(value))
        case _:
            return False
