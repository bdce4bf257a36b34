"""Text of unknown origin into attributes and contents of XML 1.0."""

import re
from collections.abc import Iterable
from html import escape

from assay.surfaces.printable import REPLACEMENT, printable

# Beyond control characters and surrogates, XML 1.0 cannot hold these, not even as character references.
_NOT_XML = re.compile("[\ufffe\uffff]")


def attribute(text: str, *, limit: int | None = None) -> str:
    """One line as a quoted value."""
    escaped = escape(_NOT_XML.sub(REPLACEMENT, printable(text, limit=limit)), quote=False)
    if '"' in escaped and "'" not in escaped:
        return f"'{escaped}'"
    quoted = escaped.replace('"', "&quot;")
    return f'"{quoted}"'


def content(lines: Iterable[str]) -> str:
    """Lines as the text of an element."""
    return escape(_NOT_XML.sub(REPLACEMENT, "\n".join(map(printable, lines))), quote=False)
