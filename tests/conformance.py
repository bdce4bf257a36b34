"""Conformance vectors (format assay-conformance/1): the bytes of a vector, what a report says of them, and the comparison."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assay import AssayError, ValidationConfig, ValidationReport, validate

TARGETS = ("dataset", "golden_dataset", "conversation")
"""What `assay.validate` answers; other targets are about runs."""
SUFFIXES = {"jsonl": ".jsonl", "yaml": ".yaml"}

Vector = dict[str, Any]
Outcome = dict[str, Any]


def read_vectors(folder: Path) -> Iterator[Vector]:
    """The vectors below a folder that speak of datasets."""
    for path in sorted(folder.glob("*/*.json")):
        vector: Vector = json.loads(path.read_text(encoding="utf-8"))
        if vector["target"] in TARGETS:
            yield vector


# What a vector's input stands for


def compact(value: Any) -> bytes:
    """Compact UTF-8 JSON, as the format counts bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def expanded(value: Any, index: int = 0) -> Any:
    """A value with its generators run; `index` is the position in the innermost generated list."""
    if isinstance(value, list):
        return [expanded(member, index) for member in value]
    if not isinstance(value, dict):
        return value
    name = next(iter(value), "")
    if len(value) == 1 and name in _GENERATORS:
        return _GENERATORS[name](value[name], index)
    return {key: expanded(member, index) for key, member in value.items()}


def _listed(settings: Any, _: int) -> list[Any]:
    return [expanded(settings["item"], position) for position in range(settings["times"])]


def _joined(parts: Any, index: int) -> list[Any]:
    return [member for part in parts for member in expanded(part, index)]


def _nested(settings: Any, _: int) -> Any:
    value = settings["leaf"]
    for _level in range(settings["containers"]):
        value = {"k": value} if settings["kind"] == "object" else [value]
    return value


def _filled(settings: Any, index: int) -> Any:
    """The object with as many letters in its filler as its size needs."""
    value = expanded(settings["object"], index)
    missing = settings["bytes"] - len(compact(_with_filler(value, "")))
    return _with_filler(value, "x" * missing)


def _with_filler(value: Any, filler: str) -> Any:
    if isinstance(value, list):
        return [_with_filler(member, filler) for member in value]
    if not isinstance(value, dict):
        return value
    return filler if value == {"$filler": True} else {key: _with_filler(member, filler) for key, member in value.items()}


_GENERATORS: dict[str, Callable[[Any, int], Any]] = {
    "$repeat": lambda settings, _: settings["text"] * settings["times"],
    "$fmt": lambda template, index: template % index,
    "$list": _listed,
    "$concat": _joined,
    "$nest": _nested,
    "$fill": _filled,
    "$filler": lambda settings, _: {"$filler": settings},
}


def content_of(source: Any) -> bytes:
    """The bytes that an input describes."""
    content = bytes.fromhex(source.get("prefix_hex", "")) + _CONTENTS[source["kind"]](source)
    return content.ljust(source.get("pad_payload_to", 0), b" ")


def _text(source: Any) -> bytes:
    text: str = source["text"]
    return text.encode(source.get("encoding", "utf-8"))


def _lines(source: Any) -> bytes:
    rows = [expanded(row) for row in source["rows"]]
    spread = [member for row in rows for member in row] if source.get("spread") else rows
    return b"".join(compact(row) + b"\n" for row in spread)


def _part(part: Any) -> bytes:
    if "hex" in part:
        return bytes.fromhex(part["hex"])
    text: str = part["text"] if "text" in part else part["repeat"] * part["times"]
    return text.encode()


_CONTENTS: dict[str, Callable[[Any], bytes]] = {
    "json": lambda source: compact(expanded(source["document"])),
    "text": _text,
    "yaml": _text,
    "base64": lambda source: base64.b64decode(source["data"]),
    "concat": lambda source: b"".join(map(_part, source["parts"])),
    "jsonl": _lines,
    "http": lambda source: content_of(source["body"]),
}


# What assay says


def outcome_of(vector: Vector, source: bytes | Path) -> Outcome:
    """The answer of `assay.validate` in the words of the vector's target."""
    try:
        config = ValidationConfig(**vector.get("config", {}))
        return _WORDINGS[vector["contract"]](validate(source, vector["contract"], config=config))
    except AssayError as problem:
        return {"outcome": "config_error", "message": problem.message}


def _batch_outcome(report: ValidationReport) -> Outcome:
    shown = report.to_dict()
    first = (shown["dataset_errors"] or [{}])[0]
    if report.outcome == "rejected":
        keys = ("http_status", "error_code", "message", "details")
        return {"outcome": "rejected", **{key: first.get(key) for key in keys}, "record_errors": shown["record_errors"]}
    return {"outcome": report.outcome, "http_status": 202, "summary": shown["summary"], "record_errors": shown["record_errors"]}


def _legal_outcome(report: ValidationReport) -> Outcome:
    shown = report.to_dict()
    return {
        "outcome": "accepted" if report.is_valid else "rejected_rows",
        "accepted_rows": report.counts.accepted_records,
        "rejected_rows": report.counts.rejected_records,
        "record_errors": shown["record_errors"] + shown["dataset_errors"],
    }


def _golden_outcome(report: ValidationReport) -> Outcome:
    shown = report.to_dict()
    return {"outcome": report.outcome, "record_errors": shown["dataset_errors"] + shown["record_errors"]}


def _conversation_outcome(report: ValidationReport) -> Outcome:
    shown = report.to_dict()
    errors = [{**error, "turn_index": error.get("index")} for error in shown["dataset_errors"] + shown["record_errors"]]
    unread = any(error["code"] in ("invalid_json", "invalid_yaml", "invalid_encoding") for error in errors)
    return {"outcome": "valid" if report.is_valid else "invalid", "parse_error": unread, "errors": errors}


_WORDINGS: dict[str, Callable[[ValidationReport], Outcome]] = {
    "batch_v1": _batch_outcome,
    "legal_eval_v1": _legal_outcome,
    "golden_v1": _golden_outcome,
    "conversation_v1": _conversation_outcome,
}


# The comparison


def differences(actual: Outcome, vector: Vector) -> list[str]:
    """Nothing where the answer is the expected one or one of its alternatives; else what differs from the expected one."""
    readings = [vector["expected"], *vector.get("alternatives", ())]
    found = [list(_unlike(actual, reading)) for reading in readings]
    return [] if [] in found else found[0]


def _unlike(actual: Outcome, expected: Outcome) -> Iterator[str]:
    for key in ("outcome", "http_status", "error_code", "message", "accepted_rows", "rejected_rows", "parse_error"):
        if key in expected and not _is_same(actual.get(key), expected[key]):
            yield f"{key} is {actual.get(key)!r}, not {expected[key]!r}"
    for key in ("summary", "details"):
        shown = actual.get(key) or {}
        yield from (
            f"{key}.{name} is {shown.get(name)!r}" for name, value in expected.get(key, {}).items() if shown.get(name) != value
        )
    if actual.get("rejected_rows", 0) < expected.get("min_rejected_rows", 0):
        yield f"only {actual['rejected_rows']} rejected rows"
    for name in ("record_errors", "errors"):
        if name in expected:
            yield from _unlike_errors(actual.get(name, []), expected, expected[name])
    if "record_errors_rule" in expected:
        yield from _unlike_rule(actual["record_errors"], expected["record_errors_rule"])


def _unlike_errors(actual: list[Any], expected: Outcome, wanted: list[Any]) -> Iterator[str]:
    report = expected.get("report", "all")
    allowed = wanted + expected.get("optional_errors", [])
    keys = ("name",) if report == "name_only" else ("index", "record_id", "code", "turn_index", "name", "path")
    for error in actual:
        if not any(_is_error(error, entry, keys) for entry in allowed):
            yield f"unexpected {error}"
    if report == "at_least_one_per_record":
        missing = {entry["index"] for entry in wanted} - {error["index"] for error in actual}
    elif report.startswith("at_least_one"):
        missing = set() if actual or not wanted else {"any"}
    else:
        missing = {str(entry) for entry in wanted if not any(_is_error(error, entry, keys) for error in actual)}
    yield from (f"missing {entry}" for entry in missing)


def _unlike_rule(actual: list[Any], rule: Any) -> Iterator[str]:
    """Many look-alike errors, told as one template."""
    low, high = map(int, rule["indexes"].split(".."))
    keys = ("record_id", "code", "path")
    wanted = {(index, *(rule[key].format(index=index) for key in keys)) for index in range(low, high + 1)}
    found = {(error["index"], *(error[key] for key in keys)) for error in actual}
    if wanted != found:
        yield f"{len(found ^ wanted)} errors differ from the rule"


def _is_error(error: Any, entry: Any, keys: tuple[str, ...]) -> bool:
    """True when every stated member is the same; a code of null states nothing."""
    stated = [key for key in keys if key in entry and not (key == "code" and entry[key] is None)]
    return all(_is_same(error.get(key), entry[key]) for key in stated)


def _is_same(actual: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and "any_of" in expected:
        is_below = isinstance(actual, str) and actual.startswith(expected.get("or_prefix", "\x00"))
        return is_below or any(_is_same(actual, reading) for reading in expected["any_of"])
    wanted = expanded(expected)
    return bool(actual == wanted and isinstance(actual, bool) == isinstance(wanted, bool))
