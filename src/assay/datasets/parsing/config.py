"""Settings of validation: every switch that a contract leaves open, and how readers work."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from assay.core.errors import UsageProblem
from assay.core.settings import ColumnSection
from assay.datasets.parsing.checks import nearest
from assay.datasets.parsing.formats import parse_yaml
from assay.datasets.parsing.source import open_source


# The names up to allow_empty_messages are those of conversation_v1, whose documents show them as Python arguments.
class ValidationConfig(msgspec.Struct, kw_only=False):
    """Limits and switches; the defaults are those of the contracts."""

    min_turns: int = 1
    max_turns: int = 100
    min_message_length: int = 1
    max_message_length: int = 5000
    min_assistant_reply_length: int = 1
    max_assistant_reply_length: int = 5000
    required_fields: list[str] = msgspec.field(default_factory=lambda: ["turn_id", "speaker"])
    optional_fields: list[str] = msgspec.field(
        default_factory=lambda: [
            "message",
            "assistant_reply",
            "tool_used",
            "tool_input",
            "tool_output",
            "confidence_score",
            "metadata",
        ]
    )
    allowed_speakers: list[str] = msgspec.field(default_factory=lambda: ["user", "assistant"])
    allowed_tools: list[str] | None = None
    require_tool_input: bool = True
    require_tool_output: bool = True
    confidence_score_min: float = 0.0
    confidence_score_max: float = 1.0
    strict_mode: bool = False
    check_turn_sequence: bool = True
    allow_empty_messages: bool = False
    nfc: Literal["normalize", "reject"] = "normalize"
    """batch_v1: text that is not in Unicode NFC is normalised with a warning, or refused."""
    unknown_fields: Literal["error", "warn"] = "error"
    """batch_v1: what an unknown member of a record or of `expected` is."""
    null_as_absent: bool = False
    """An optional or forbidden field that is null counts as absent (exports of pandas and Hugging Face)."""
    allow_size: bool = False
    """golden_v1: accept fewer than 5 or more than 20 cases."""
    lint: bool = True
    """Look for criteria of rubrics that repeat or contradict each other, cannot be decided or change nothing."""


_LARGEST = 1 << 40
"""Bounds above this, and infinite ones, are not limits."""
_NESTED = {
    "tools": {
        "allowed_tools": "allowed_tools",
        "require_tool_input": "require_tool_input",
        "require_tool_output": "require_tool_output",
    },
    "confidence_score": {"min_value": "confidence_score_min", "max_value": "confidence_score_max"},
}
"""Groups that a config file may use instead of the flat names."""


def check_config(config: ValidationConfig) -> ValidationConfig:
    """Return valid settings unchanged; raises UsageProblem that lists everything wrong with them."""
    try:
        # A struct made in Python is not checked by its constructor; the way through plain values does it.
        msgspec.convert(msgspec.to_builtins(config), ValidationConfig)
    except msgspec.ValidationError as problem:
        raise UsageProblem(f"bad setting: {problem}", hint="docs/reference/contracts.md#settings lists them") from problem
    problems = [*_bad_ranges(config), *_bad_lists(config)]
    if problems:
        raise UsageProblem(
            f"bad settings: {'; '.join(problems)}", hint="every minimum must be at most its maximum, and lists must name something"
        )
    return config


def _bad_ranges(config: ValidationConfig) -> list[str]:
    ranges = {
        "turns": (config.min_turns, config.max_turns),
        "message_length": (config.min_message_length, config.max_message_length),
        "assistant_reply_length": (config.min_assistant_reply_length, config.max_assistant_reply_length),
        "confidence_score": (config.confidence_score_min, config.confidence_score_max),
    }
    odd = [f"{name} ({bound}) is out of range" for name, pair in ranges.items() for bound in pair if not abs(bound) < _LARGEST]
    if odd:
        return odd
    crossed = [f"min of {name} ({low}) is above its max ({high})" for name, (low, high) in ranges.items() if not low <= high]
    negative = [f"min of {name} ({low}) is negative" for name, (low, _) in ranges.items() if name != "confidence_score" and low < 0]
    return crossed + negative


def _bad_lists(config: ValidationConfig) -> list[str]:
    return [] if config.allowed_speakers else ["allowed_speakers is empty"]


def load_config(path: str | Path) -> ValidationConfig:
    """Read the settings in a YAML or JSON file; raises UsageProblem that names every bad key and the nearest known one."""
    # One parser for both formats: JSON is YAML.
    document = parse_yaml(bytes(open_source(path).buffer()))
    for flaw in document.flaws:
        place = document.place(flaw.offset)
        raise UsageProblem(f"config '{path}' line {place.line}: {flaw.message}", hint=flaw.hint)
    if document.value is None:
        return ValidationConfig()
    if not isinstance(document.value, dict):
        raise UsageProblem(f"config '{path}' must be a mapping of settings", hint="write one 'name: value' per line")
    try:
        config = msgspec.convert(_flat(document.value, path), ValidationConfig)
    except msgspec.ValidationError as problem:
        raise UsageProblem(f"config '{path}': {problem}") from problem
    return check_config(config)


def read_columns(columns: Mapping[str, object]) -> ColumnSection:
    """Return the columns of a table, given by their roles; raises UsageProblem."""
    try:
        return msgspec.convert(columns, ColumnSection)
    except msgspec.ValidationError as problem:
        raise UsageProblem(f"columns: {problem}", hint=f"roles are {', '.join(ColumnSection.__struct_fields__)}") from problem


def changed_settings(config: ValidationConfig) -> dict[str, object]:
    """Return the settings that differ from the defaults, as plain values."""
    default = msgspec.to_builtins(ValidationConfig())
    return {name: value for name, value in msgspec.to_builtins(config).items() if value != default[name]}


def _flat(values: Mapping[str, object], path: str | Path) -> dict[str, object]:
    flat: dict[str, object] = {}
    unknown: list[str] = []
    for key, value in values.items():
        if key in _NESTED and isinstance(value, dict):
            group = _NESTED[key]
            flat |= {group[name]: member for name, member in value.items() if name in group}
            unknown += [_unknown_key(f"{key}.{name}", name, tuple(group)) for name in value if name not in group]
        elif key in ValidationConfig.__struct_fields__:
            flat[key] = value
        else:
            unknown.append(_unknown_key(key, key, ValidationConfig.__struct_fields__))
    if unknown:
        raise UsageProblem(f"config '{path}': {'; '.join(unknown)}", hint="docs/reference/contracts.md#settings lists them")
    return flat


def _unknown_key(shown: str, key: str, known: tuple[str, ...]) -> str:
    guess = nearest(key, known)
    return f"unknown key '{shown}'" + (f" ({guess})" if guess else "")


Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""


Interface = Literal["python", "cli", "http", "page"]
"""Interface by which a caller gives its settings; hints name them as they are written there."""


def no_progress(done: int, total: int) -> None:
    """Ignore the progress: no caller observes it."""


class ReadOptions(NamedTuple):
    """Options of a reader: workers, hashes, lint, and the callback for progress."""

    progress: Progress = no_progress
    workers: int = 1
    """Processes for large batch_v1 documents; more than one forks, which a server must not do."""
    hashes: bool = False
    """True if the caller will need all hashes, so that a reader with each record in memory should compute them."""
    lint: bool = False
    """Warn of doubtful rubrics, too."""
    interface: Interface = "python"
    table: tuple[ColumnSection, str] = (ColumnSection(), "")
    """Of a table: the columns that the caller names, and the sheet."""


DEFAULT_READ_OPTIONS = ReadOptions()
