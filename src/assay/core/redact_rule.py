"""A custom redaction rule, as run files and server settings state it."""

from typing import Annotated

import msgspec
from msgspec import Meta


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
