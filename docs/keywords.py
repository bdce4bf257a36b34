"""The keyword arguments of a run in Python, made from the settings in core/settings.py."""

import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from assay.core.exposure import ExposedSetting, unwrapped
from assay.core.settings import run_settings

WIDTH = 132
_HEAD = '''"""Settings of a run as keyword arguments of Python; `make schema` makes this module from core/settings.py."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from assay.core.checks import Check
from assay.core.settings import DatasetEntry, GraderEntry, ModelEntry

Model = str | Callable[..., Any] | Mapping[str, Any] | ModelEntry
"""A model: its name as `provider/model`, a function, or a mapping with the keys of a candidate in a run file."""


class SettingKeywords(TypedDict, total=False):
    """Settings of a run; None leaves a setting to the run file or to its default."""
'''
_SPECIAL = {
    "datasets": "Sequence[str | Path | Mapping[str, Any] | DatasetEntry]",
    "models": "Sequence[Model]",
    "judges": "Sequence[Model]",
    "checks": "Sequence[str | Mapping[str, Any] | Check]",
    "graders": "Sequence[Mapping[str, Any] | GraderEntry]",
    "check_gates": "Mapping[str, float] | Sequence[str]",
    "grader_gates": "Mapping[str, float] | Sequence[str]",
    "grader": "str | Callable[..., Any]",
    "policy": "str | Callable[..., Any]",
    "policies": "Mapping[str, str | Callable[..., Any]]",
}
"""Settings that take code or paths besides what a run file holds."""


def keywords_module() -> str:
    """The text of the module."""
    return _HEAD + "".join("\n" + "\n".join(_member(setting)) + "\n" for setting in run_settings().values())


def _member(setting: ExposedSetting) -> Iterator[str]:
    kind = _type_of(setting)
    line = f"    {setting.member}: {kind} | None"
    # As the formatter writes what does not fit.
    yield line if len(line) <= WIDTH else f"    {setting.member}: (\n        {kind}\n        | None\n    )"
    lines = textwrap.wrap(f'"""{setting.description}"""', WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    # A closing quote alone on its line is how the formatter ends a text of several.
    if len(lines) > 1:
        lines = [*textwrap.wrap(f'"""{setting.description}', WIDTH - 4, break_long_words=False, break_on_hyphens=False), '"""']
    yield from (f"    {line}" for line in lines)


def _type_of(setting: ExposedSetting) -> str:
    if setting.member in _SPECIAL:
        return _SPECIAL[setting.member]
    if setting.kind is str and setting.option is not None and setting.option.metavar in ("FILE", "DIR"):
        return "str | Path"
    return _spelled(setting.kind)


def _spelled(kind: Any) -> str:
    """A type of a setting as a caller in Python gives it."""
    kind, _ = unwrapped(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, args))}]"
    if origin is tuple:
        return f"Sequence[{_spelled(args[0])}]"
    if origin is dict:
        return f"Mapping[str, {_spelled(args[1])}]"
    if args:
        return " | ".join(dict.fromkeys(map(_spelled, args)))
    return (
        "Mapping[str, Any]"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        else "Any"
        if kind is Any
        else kind.__name__
    )


def _quoted(word: object) -> str:
    return f'"{word}"' if isinstance(word, str) else repr(word)
