"""What of the reference is made from the code, and written by `make schema`: the schema of run files, and tables of its page."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core.provider import PROVIDERS
from assay.engine.planning.run_file import run_file_schema

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "src" / "assay" / "schemas" / "run_file.schema.json"
PAGE = ROOT / "docs" / "reference" / "run-file.md"
_TABLE = re.compile(r"(?P<mark><!-- (?P<what>[\w ]+) -->\n\n)(?:\|.*\n)+")
"""A mark that no reader sees, and the table below it."""


def generated() -> dict[Path, str]:
    """What the files ought to hold."""
    schema = msgspec.to_builtins(run_file_schema())
    tables = {f"keys of {name}": _keys(component) for name, component in schema["$defs"].items()}
    tables["kinds of providers"] = _kinds()
    page = _TABLE.sub(lambda found: found["mark"] + "".join(f"{row}\n" for row in tables[found["what"]]), PAGE.read_text("utf-8"))
    return {SCHEMA: json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n", PAGE: page}


def _keys(component: dict[str, Any]) -> Iterator[str]:
    yield "| key | what it says | default |"
    yield "|---|---|---|"
    for key, member in component["properties"].items():
        if not member.get("deprecated"):
            yield f"| `{key}` | {member['description']} | {_default(member, is_required=key in component['required'])} |"


def _default(member: dict[str, Any], *, is_required: bool) -> str:
    """A section has the defaults of its keys, and what is left empty has none."""
    default = member.get("default")
    if default is None or default in ("", [], ()) or isinstance(default, dict):
        return "required" if is_required else ""
    return f"`{json.dumps(default, separators=(',', ':'))}`"


def _kinds() -> Iterator[str]:
    yield "| kind | models | key | another address | batches |"
    yield "|---|---|---|---|---|"
    for kind, row in PROVIDERS.items():
        key, url = (f"`{row.vendor.key_variable}`", f"`{row.vendor.url_variable}`") if row.vendor else ("", "")
        yield f"| **`{kind}`** | {row.words} | {key} | {url} | {'yes' if row.batches else ''} |"


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
