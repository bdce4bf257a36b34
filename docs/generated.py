"""What `make schema` makes from the code: the schema of run files, tables about settings, and a picture of the folders."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from assay.core import call_rules, checks, graders, settings
from assay.core.provider import PROVIDERS
from assay.core.settings import run_settings
from assay.engine.planning.request import run_file_schema
from docs.house import house_svg
from docs.keywords import keywords_module
from docs.models import current, outdated

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "docs" / "images" / "house.svg"
SCHEMA = ROOT / "src" / "assay" / "schemas" / "run_file.schema.json"
PAGE = ROOT / "docs" / "reference" / "run-file.md"
CHECKS_PAGE = ROOT / "docs" / "reference" / "checks.md"
PROVIDERS_PAGE = ROOT / "docs" / "reference" / "providers.md"
KEYWORDS = ROOT / "src" / "assay" / "core" / "setting_keywords.py"
COMMANDS = ROOT / "docs" / "reference" / "run.md"
_TABLE = re.compile(r"(?P<mark><!-- (?P<what>[\w ]+) -->\n\n)(?:\|.*\n)+")
"""A mark that no reader sees, and the table below it."""


def generated() -> dict[Path, str]:
    """What the files ought to hold."""
    schema = msgspec.to_builtins(run_file_schema())
    types = {kind.__name__: kind for kind in get_args(checks.Check)}
    tables = {f"keys of {name}": _keys(name, component) for name, component in schema["$defs"].items() if name not in types}
    tables["types of checks"] = _check_types(schema["$defs"], types)
    tables["keys of all checks"] = _shared_keys(schema["$defs"]["IsJsonCheck"])
    tables["kinds of providers"] = _kinds()
    tables["settings given elsewhere"] = _given_elsewhere()
    tables["addresses of providers"] = _addresses()
    commands = _with_options(COMMANDS.read_text("utf-8"))
    return {
        SCHEMA: json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n",
        PAGE: current(_with_tables(PAGE, tables)),
        CHECKS_PAGE: current(_with_tables(CHECKS_PAGE, tables)),
        PROVIDERS_PAGE: current(_with_tables(PROVIDERS_PAGE, tables)),
        COMMANDS: current(commands),
        HOUSE: house_svg(),
        KEYWORDS: keywords_module(),
    }


def _with_tables(page: Path, tables: dict[str, Iterator[str]]) -> str:
    """A page with its tables made anew."""
    return _TABLE.sub(lambda found: found["mark"] + "".join(f"{row}\n" for row in tables[found["what"]]), page.read_text("utf-8"))


def _keys(name: str, component: dict[str, Any]) -> Iterator[str]:
    """The keys of a section, its own before those that it shares with a part of the plan."""
    modules = (settings, checks, graders, call_rules)
    own = next(getattr(module, name) for module in modules if hasattr(module, name)).__annotations__
    yield "| key | what it says | default |"
    yield "|---|---|---|"
    for key, member in sorted(component["properties"].items(), key=lambda entry: entry[0].removeprefix("$") not in own):
        if not member.get("deprecated"):
            yield f"| `{key}` | {member['description']} | {_default(member, is_required=key in component['required'])} |"


_SHARED = ("name", "type", "weight", "expected")
"""Keys that all checks have."""


def _check_types(sections: dict[str, Any], types: dict[str, Any]) -> Iterator[str]:
    """A row for each key of a type of check, and one for a type without any."""
    yield "| type | passes where | key | what it says | default |"
    yield "|---|---|---|---|---|"
    for name, kind in types.items():
        head = f"**`{kind.__struct_config__.tag}`** | {str(kind.__doc__).strip().rstrip('.')}"
        members = {key: member for key, member in sections[name]["properties"].items() if key not in _SHARED}
        if not members:
            yield f"| {head} | | | |"
        for key, member in members.items():
            required = key in sections[name].get("required", ())
            yield f"| {head} | `{key}` | {member['description']} | {_default(member, is_required=required)} |"
            head = " | "


def _shared_keys(section: dict[str, Any]) -> Iterator[str]:
    yield "| key | what it says | default |"
    yield "|---|---|---|"
    for key in _SHARED:
        member = section["properties"][key]
        yield f"| `{key}` | {member['description']} | {_default(member, is_required=key == 'type')} |"


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
        key = " or ".join(f"`{name}`" for name in row.vendor.key_variables()) if row.vendor else ""
        url = " or ".join(f"`{name}`" for name in (*row.vendor.region_variables[:1], row.vendor.url_variable)) if row.vendor else ""
        yield f"| **`{kind}`** | {row.words} | {key} | {url} | {'yes' if row.batches else ''} |"


_PROTOCOLS = {
    "openai_chat": "chat completions",
    "openai_responses": "responses",
    "anthropic": "messages",
    "gemini": "Gemini generateContent",
    "bedrock": "Bedrock Converse",
}
"""What the modules of HTTP providers speak."""


def _addresses() -> Iterator[str]:
    yield "| provider | protocol | address | environment |"
    yield "|---|---|---|---|"
    for kind, row in PROVIDERS.items():
        if row.vendor is None:
            continue
        vendor = row.vendor
        keys = " or ".join(f"`{name}`" for name in vendor.key_variables())
        needed = f"key {keys}{' (not needed)' if vendor.is_keyless else ''}"
        more = {
            "region": vendor.region_variables,
            "address": (vendor.url_variable,),
            "version": vendor.version_variables,
        }
        others = [f"{what} {' or '.join(f'`{name}`' for name in names)}" for what, names in more.items() if names]
        address = f"`{vendor.url}`" if vendor.url else "of the resource"
        yield f"| **`{kind}`** | {_PROTOCOLS[row.home]} | {address} | {'; '.join([needed, *others])} |"


def _given_elsewhere() -> Iterator[str]:
    yield "| key | option of `assay run` | parameter of `POST /v1/runs` | field of the form |"
    yield "|---|---|---|---|"
    for setting in run_settings().values():
        option = f"`{setting.option_name}`" if setting.option else ""
        parameter = f"`{setting.parameter_name}`" if setting.parameter else ""
        if option or parameter:
            yield f"| `{'.'.join(setting.path)}` | {option} | {parameter} | {setting.form.label if setting.form else ''} |"


def _with_options(page: str) -> str:
    """The page of commands, where the option of a new setting gets a row below its neighbour's; the rows there are not changed."""
    before, heading, rest = page.partition("## `assay run`\n")
    section, below, after = rest.partition("\n## ")
    last = "--model"
    for setting in run_settings().values():
        name, option = setting.option_name, setting.option
        if option is None:
            continue
        if f"| `{name}" not in section:
            row = f"| `{f'{name} {option.metavar}'.strip()}` | {setting.option_text} |\n"
            end = section.index("\n", section.index(f"| `{last}")) + 1
            section = section[:end] + row + section[end:]
        last = name
    return before + heading + section + below + after


if __name__ == "__main__":
    for path, text in (*outdated().items(), *generated().items()):
        path.write_text(text, encoding="utf-8")
