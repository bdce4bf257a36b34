"""The rules of batch_v1, applied exactly: values in, findings and cases out."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
import orjson

from assay.core import open_fields
from assay.core.canonical import JsonObject, canonical_json
from assay.core.case import Case, Criterion, Message
from assay.core.issue import Path
from assay.core.narrow_text import LONG_TEXT
from assay.datasets.parsing.checks import (
    FindingList,
    array_at,
    check_controls,
    depth_of,
    integer_at,
    name_of,
    object_at,
    string_at,
    unknown_members,
    word_at,
)
from assay.datasets.parsing.config import ValidationConfig
from assay.datasets.parsing.scan import beyond_ascii, doubtful_offsets, has_combining_run
from assay.datasets.parsing.tool_members import batch_tools

# The limits of the contract; KB and MB are 1024-based.
MAX_PAYLOAD_BYTES = 100 << 20
MAX_RECORDS = 50_000
MAX_RECORD_BYTES = 256 << 10
MAX_VALUE_BYTES = 24 << 20
"""Memory of the values of a record or of everything outside the records; what a record of 256 KB may hold takes half of it."""
MAX_DATASET_METADATA_BYTES = 16 << 10
MAX_RECORD_METADATA_BYTES = 8 << 10
MAX_METADATA_DEPTH = 5
MAX_TEXT = 200_000
MAX_ID = 128
MAX_VERSION = 64
MAX_TAGS = 32
MAX_TAG = 64
MAX_LATENCY_MS = 120_000
# The closed list of the contract; a record with another word is invalid.
CRITERIA = ("accuracy", "clarity", "reasoning", "factuality", "overall")
HEAD_FIELDS = ("dataset_id", "dataset_version", "schema_version", "records", "created_at", "metadata")
RECORD_FIELDS = ("record_id", "input", "reference", "tags", "expected", "metadata")
REQUIRED = ("dataset_id", "dataset_version", "schema_version", "records", "record_id", "input", "prompt")
"""Required fields of the document and of its records."""
DOCUMENT_LIKE = '{"dataset_id": "...", "dataset_version": "...", "schema_version": "1.0", "records": [...]}'
RECORD_LIKE = '{"record_id": "q-1", "input": {"prompt": "..."}}'
EXPECTED_FIELDS = ("max_latency_ms", "required_criteria")

_ONE_RECORD = f"this is one record; a file has them in records: {DOCUMENT_LIKE}"
# ASCII ranges and \Z: `\w` matches letters of every script, and `$` also matches before a final line break.
_DATASET_ID = re.compile(r"[A-Za-z0-9_.-]*\Z")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt](?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|\+00:00)\Z")
_MAY_BE_CONTROL_ESCAPE = re.compile(rb"\\(?<![^\\]\\\\)(?:[bf]|u00)")
"""Not in `C:\\\\bin`, where the backslash is itself escaped; longer runs of backslashes are in doubt."""
_C1_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_MAX_GROWTH = 6 * 4
"""A text of n characters is at most this many times n canonical bytes: 1e20 grows to 21 digits, a character to 4 bytes."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def check_head(head: Mapping[str, object], config: ValidationConfig) -> FindingList:
    """Check everything outside the records: identity, version, time, metadata."""
    found = FindingList(required=REQUIRED)
    is_record = "records" not in head and not {"record_id", "input"}.isdisjoint(head)
    for field in ("dataset_id", "dataset_version", "schema_version", "records"):
        if field not in head:
            if is_record and field == "records":
                found.missing((field,), hint=_ONE_RECORD)
            else:
                found.missing((field,), members=head, known=HEAD_FIELDS)
    if "dataset_id" in head:
        _check_dataset_id(found, head["dataset_id"])
    # Normalized before it is measured, because limits are on text in NFC.
    if "dataset_version" in head:
        normal = NormalizedRecord(FindingList(), head["dataset_version"], ("dataset_version",)).value
        string_at(found, normal, ("dataset_version",), low=1, high=MAX_VERSION)
        check_controls(found, normal if type(normal) is str else "", ("dataset_version",))
    if "schema_version" in head:
        word_at(found, head["schema_version"], ("schema_version",), words=("1.0",))
    if "created_at" in head:
        _check_created_at(found, head["created_at"])
    if "metadata" in head:
        check_metadata(found, head["metadata"], ("metadata",), limit=MAX_DATASET_METADATA_BYTES)
        _check_texts(found, head["metadata"], ("metadata",))
    for field in ("dataset_version", "metadata"):
        _check_normalization(found, head.get(field), (field,), config)
    # The contract closes the list of members of a record and of `expected` alone; elsewhere an unknown one is only a warning.
    for unknown in unknown_members(head, HEAD_FIELDS):
        is_of_record = is_record and unknown.name in RECORD_FIELDS
        hint, guess = ("it is a field of a record", None) if is_of_record else ("", unknown.guess)
        message = f"{unknown.message} and is ignored"
        found.warn("unsupported_field", (unknown.name,), message, hint=hint, guess=guess, on_key=True)
        _check_texts(found, {unknown.name: head[unknown.name]}, ())
    return found


def _check_normalization(found: FindingList, value: object, path: Path, config: ValidationConfig) -> None:
    _note_normalization(found, NormalizedRecord(found, value, path).changed, config)


def _check_dataset_id(found: FindingList, value: object) -> None:
    string_at(found, value, ("dataset_id",), low=1, high=MAX_ID)
    if type(value) is str and not _DATASET_ID.match(value):
        found.add(
            "value_out_of_range",
            ("dataset_id",),
            "dataset_id may hold only A-Z a-z 0-9 _ - .",
            hint="replace other characters by _",
        )


def _check_created_at(found: FindingList, value: object) -> None:
    text = string_at(found, value, ("created_at",), like='"2026-01-15T10:05:12Z"')
    if text is None:
        return
    # RFC 3339 allows lower case (5.6), more digits of a second than datetime reads, and the leap second at the end of a day.
    readable = re.sub(r"\.[0-9]+", "", text).upper().replace("T23:59:60", "T23:59:59")
    try:
        is_time = bool(_TIMESTAMP.match(text)) and bool(datetime.fromisoformat(readable))
    except ValueError:
        is_time = False
    if not is_time:
        found.add(
            "value_out_of_range",
            ("created_at",),
            "created_at is not an ISO-8601 UTC timestamp",
            hint="write it like 2026-01-15T10:05:12Z",
        )


class NormalizedRecord:
    """A record in NFC, and whether that changed it."""

    def __init__(self, found: FindingList, value: object, path: Path) -> None:
        self.changed: list[tuple[Path, bool]] = []
        """Texts that were not in NFC; True marks the name of a member."""
        self._found = found
        self.value: Any = self._walk(value, path)

    def _walk(self, value: object, path: Path) -> object:
        if type(value) is str:
            return self._text(value, path)
        if type(value) is list:
            return [self._walk(member, (*path, index)) for index, member in enumerate(value)]
        if type(value) is dict:
            return self._members(value, path)
        return value

    def _members(self, value: Mapping[str, object], path: Path) -> dict[str, object]:
        members: dict[str, object] = {}
        for key, member in value.items():
            name = self._text(key, (*path, key), is_name=True)
            if name in members:
                self._found.add(
                    "invalid_encoding", (*path, key), f"the name {name!r} appears twice in one object after NFC", on_key=True
                )
            members[name] = self._walk(member, (*path, key))
        return members

    def _text(self, text: str, path: Path, *, is_name: bool = False) -> str:
        if text.isascii():
            return text
        # unicodedata.normalize takes quadratic time on such a run; it must never be called on one.
        if has_combining_run(text):
            self._found.add(
                "invalid_encoding", path, f"{path[-1]} holds a run of more than 30 combining marks", hint="remove the marks"
            )
            return _SURROGATES.sub("\ufffd", text)
        # is_normalized answers for most text without making a copy.
        if not unicodedata.is_normalized("NFC", text):
            self.changed.append((path, is_name))
            text = unicodedata.normalize("NFC", text)
        return _SURROGATES.sub("\ufffd", text)


class CheckedRecord:
    """One record after the exact check: its NFC value and the findings."""

    def __init__(self, value: object, path: Path, config: ValidationConfig, *, text: str | None = None) -> None:
        """Check a value; `text` is its source, which makes most checks of characters and sizes unnecessary."""
        self.found = FindingList(required=REQUIRED)
        self.value: Any = value
        self.is_normalized = True
        # Without escapes, one scan of the text stands for a walk over all strings of the record.
        plain = None if text is None else _unescaped(text, value)
        if plain is None or (not plain.isascii() and doubtful_offsets(beyond_ascii(plain)).size):
            self._normalize(path, config)
        _check_record(self.found, self.value, path, config)
        if plain is None or _may_hold_control(plain):
            _check_texts(self.found, self.value, path)
        else:
            _check_one_line_texts(self.found, self.value, path)
        # A short record cannot grow beyond the limit, and writing it canonically costs as much as parsing it.
        if text is None or len(text) * _MAX_GROWTH > MAX_RECORD_BYTES:
            size = len(self.canonical)
            if size > MAX_RECORD_BYTES:
                _too_large(self.found, path, f"{size:,}", MAX_RECORD_BYTES)

    def _normalize(self, path: Path, config: ValidationConfig) -> None:
        normalized = NormalizedRecord(self.found, self.value, path)
        self.value = normalized.value
        self.is_normalized = not normalized.changed
        _note_normalization(self.found, normalized.changed, config)

    @cached_property
    def canonical(self) -> bytes:
        """Record as RFC 8785 writes it."""
        return canonical_json(self.value)

    @property
    def record_id(self) -> str | None:
        """Id, where the record has one that is a string."""
        found = self.value.get("record_id") if type(self.value) is dict else None
        return found if type(found) is str else None


def _unescaped(text: str, value: object) -> bytes | None:
    """Write a value as JSON in which only control characters, quotes and backslashes are escaped; None if that is impossible."""
    try:
        return orjson.dumps(value) if "\\u" in text else text.encode()
    except (orjson.JSONEncodeError, UnicodeEncodeError):
        return None


def _may_hold_control(plain: bytes) -> bool:
    """Return whether a JSON text may have a control character other than tab and line break."""
    return b"\x7f" in plain or bool(_MAY_BE_CONTROL_ESCAPE.search(plain) or _C1_CONTROL.search(plain))


def _note_normalization(found: FindingList, changed: list[tuple[Path, bool]], config: ValidationConfig) -> None:
    """Report every text that is not in NFC if the settings refuse such, otherwise warn at the first one."""
    hint = "save text in NFC: unicodedata.normalize('NFC', text), or assay validate --fix"
    if config.nfc == "reject":
        for path, is_name in changed:
            found.add("invalid_encoding", path, f"{name_of(path)} is not in Unicode NFC", hint=hint, on_key=is_name)
        return
    # One warning a record: all its texts come from the same program, and have the same form.
    for path, is_name in changed[:1]:
        found.warn("not_normalized", path, f"{name_of(path)} is not in Unicode NFC and was normalised", hint=hint, on_key=is_name)


def _check_record(found: FindingList, value: object, path: Path, config: ValidationConfig) -> None:
    record = object_at(found, value, path, like=RECORD_LIKE)
    if record is None:
        return
    for field in ("record_id", "input"):
        if field not in record:
            found.missing((*path, field))
    if "record_id" in record:
        string_at(found, record["record_id"], (*path, "record_id"), low=1, high=MAX_ID)
    if "input" in record:
        _check_input(found, record["input"], (*path, "input"))
    if "reference" in record:
        _check_reference(found, record["reference"], (*path, "reference"))
    if "tags" in record:
        _check_tags(found, record["tags"], (*path, "tags"))
    if "expected" in record:
        _check_expected(found, record["expected"], (*path, "expected"), config)
    if "metadata" in record:
        check_metadata(found, record["metadata"], (*path, "metadata"), limit=MAX_RECORD_METADATA_BYTES)
    _check_unknown(found, record, path, known=RECORD_FIELDS, config=config)


def _check_unknown(
    found: FindingList, value: Mapping[str, object], path: Path, *, known: tuple[str, ...], config: ValidationConfig
) -> None:
    # `unsupported_field` is one of the contract's nine codes, which would have no use if unknown members were ignored.
    note = found.add if config.unknown_fields == "error" else found.warn
    remedy = "remove it, or move it into metadata" if known is RECORD_FIELDS else f"remove it; known are {' and '.join(known)}"
    for unknown in unknown_members(value, known):
        note("unsupported_field", (*path, unknown.name), unknown.message, hint=remedy, guess=unknown.guess, on_key=True)


def _check_input(found: FindingList, value: object, path: Path) -> None:
    members = object_at(found, value, path, like='{"prompt": "..."}')
    if members is None:
        return
    if "prompt" not in members:
        found.missing((*path, "prompt"), members=members)
    else:
        string_at(found, members["prompt"], (*path, "prompt"), low=1, high=MAX_TEXT)


def _check_reference(found: FindingList, value: object, path: Path) -> None:
    members = object_at(found, value, path, like='{"answer": "..."}')
    if members is not None and "answer" in members:
        string_at(found, members["answer"], (*path, "answer"), high=MAX_TEXT)


def _check_tags(found: FindingList, value: object, path: Path) -> None:
    tags = array_at(found, value, path)
    if tags is None:
        return
    if len(tags) > MAX_TAGS:
        found.add("value_out_of_range", path, f"tags has {len(tags):,} items; the limit is {MAX_TAGS}")
    for index, tag in enumerate(tags):
        string_at(found, tag, (*path, index), low=1, high=MAX_TAG)


def _check_expected(found: FindingList, value: object, path: Path, config: ValidationConfig) -> None:
    members = object_at(found, value, path, like='{"max_latency_ms": 2000}')
    if members is None:
        return
    if "max_latency_ms" in members:
        integer_at(found, members["max_latency_ms"], (*path, "max_latency_ms"), low=1, high=MAX_LATENCY_MS)
    if "required_criteria" in members:
        criteria = array_at(found, members["required_criteria"], (*path, "required_criteria"))
        for index, criterion in enumerate(criteria or ()):
            word_at(found, criterion, (*path, "required_criteria", index), words=CRITERIA)
    _check_unknown(found, members, path, known=EXPECTED_FIELDS, config=config)


def check_metadata(found: FindingList, value: object, path: Path, *, limit: int) -> None:
    """Check that metadata is an object of at most five levels and `limit` bytes."""
    members = object_at(found, value, path, like='{"source": "..."}')
    if members is None:
        return
    if depth_of(members, MAX_METADATA_DEPTH) > MAX_METADATA_DEPTH:
        found.add(
            "value_out_of_range",
            path,
            f"metadata nests deeper than {MAX_METADATA_DEPTH} levels",
            hint="flatten it; the object itself is level 1",
        )
    # The limit is on normalised text, which may be shorter or longer than the given one.
    size = len(canonical_json(NormalizedRecord(FindingList(), members, ()).value)) if _may_exceed(members, limit) else 0
    if size > LONG_TEXT:
        # Some characters of longer texts may be stand-ins.
        _too_large(found, path, f"more than {LONG_TEXT:,}", limit)
    elif size > limit:
        _too_large(found, path, f"{size:,}", limit)


def _may_exceed(members: Mapping[str, object], limit: int) -> bool:
    """Return whether the canonical bytes may exceed the limit; orjson is quick and off by a few digits of a number at most."""
    try:
        return len(orjson.dumps(members)) * _MAX_GROWTH > limit
    except orjson.JSONEncodeError:
        return True


def _too_large(found: FindingList, path: Path, size: str, limit: int) -> None:
    subject = path[-1] if isinstance(path[-1], str) else "the record"
    found.add(
        "record_too_large",
        path,
        f"{subject} is {size} bytes as compact JSON; the limit is {limit:,}",
        hint="shorten texts or move attachments out of the record",
    )


def _check_texts(found: FindingList, value: object, path: Path) -> None:
    """Check every text for control characters; ids and tags must be one line."""
    if type(value) is str:
        if not value.isprintable():
            # Ids and tags appear in lists, file names and terminals, where a line break could imitate another entry.
            one_line = path[2:] == ("record_id",) or (path[2:3] == ("tags",) and len(path) == 4)
            check_controls(found, value, path, one_line=one_line)
    elif type(value) is list:
        for index, member in enumerate(value):
            _check_texts(found, member, (*path, index))
    elif type(value) is dict:
        for key, member in value.items():
            check_controls(found, key, (*path, key), on_key=True)
            _check_texts(found, member, (*path, key))


def _check_one_line_texts(found: FindingList, value: object, path: Path) -> None:
    """Check the texts in which even a line break is forbidden."""
    if type(value) is dict:
        for field in ("record_id", "tags"):
            if field in value:
                _check_texts(found, value[field], (*path, field))


def to_case(record: JsonObject, index: int, *, dataset: str, record_sha256: str) -> Case:
    """Convert a valid record to a case; criteria are named here and described by the grading policy."""
    reference = record.get("reference", {})
    expected = record.get("expected", {})
    # An empty answer is a reference: the right answer to some tasks is to say nothing.
    answer = reference.get("answer")
    criteria = expected.get("required_criteria", [])
    extra = _extra(record, criteria)
    tools = batch_tools(record)
    return Case(
        id=record["record_id"],
        index=index,
        contract="batch_v1",
        task="open",
        dataset=dataset,
        prompt=record["input"]["prompt"],
        messages=_messages(record["input"]),
        references=() if answer is None else (answer,),
        # The contract allows a criterion twice in the list; it is judged once.
        criteria=tuple(Criterion(name, name) for name in dict.fromkeys(criteria)),
        tags=tuple(record.get("tags", ())),
        max_latency_ms=expected.get("max_latency_ms"),
        metadata=record.get("metadata", {}),
        extra=extra,
        tools=tools.tools,
        expected_calls=tools.calls,
        call_matching=tools.matching,
        # Stored with the case, so that a run that is resumed with a later version sends the same prompts.
        open_fields=open_fields.VERSION if "input" in extra or "reference" in extra else msgspec.UNSET,
        record_sha256=record_sha256,
    )


def _messages(given: JsonObject) -> tuple[Message, ...]:
    """Build the messages before the prompt; the prompt follows as a user message unless the last one contains it."""
    earlier = tuple(Message(message["role"], message["content"]) for message in open_fields.earlier_messages(given))
    if not earlier or (earlier[-1].role == "user" and given["prompt"].strip() in earlier[-1].content):
        return earlier
    return (*earlier, Message("user", given["prompt"]))


def _extra(record: JsonObject, criteria: list[str]) -> dict[str, object]:
    """Collect the members that a case has no field for, so that nothing of the record is lost."""
    extra: JsonObject = {key: member for key, member in record.items() if key not in RECORD_FIELDS}
    open_input = {key: member for key, member in record["input"].items() if key != "prompt"}
    open_reference = {key: member for key, member in record.get("reference", {}).items() if key != "answer"}
    extra |= {"input": open_input} if open_input else {}
    extra |= {"reference": open_reference} if open_reference else {}
    return extra | ({"required_criteria": criteria} if criteria else {})
