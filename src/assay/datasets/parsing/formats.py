"""Formats of sources: detection of syntax and contract, and YAML texts."""

import re
from importlib import import_module
from pathlib import Path
from typing import Literal

import msgspec

from assay.core.contract import CONTRACTS, REFERENCE, ROW_MEMBERS, SEVERAL, ContractId, Format
from assay.core.strict_json import ParsedDocument
from assay.datasets.parsing.source import BEGINNING, BOM, Source, filled_lines

# Patterns that are tried at every line take no line breaks: a file of empty lines would be read once for each of them.
_BARE_KEY = re.compile(rb"[\s\[{-]*[A-Za-z_][A-Za-z0-9_ -]*:(?:\s|$)")
"""A mapping whose first name has no quotes is YAML."""


def sniff_format(source: Source) -> Format:
    """Detect the syntax of a source by its name, or else by its content."""
    if source.format is not None:
        return source.format
    head = source.head()
    start = head.lstrip()[:1]
    # YAML allows brackets too; a name without quotes is what JSON never has.
    if start not in (b"[", b"{") or _BARE_KEY.match(head):
        return "yaml"
    lines = filled_lines(source)
    # The first line of an indented document is not a JSON value, that of JSON Lines is.
    first, second = next(lines, None), next(lines, None)
    return "jsonl" if first and second and _is_json(first.content) else "json"


def _is_json(line: bytes) -> bool:
    try:
        # As Raw it is checked, and no value is made.
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


TableKind = Literal["delimited", "workbook", "parquet", "folder"]
_TABLE_KINDS: dict[str, TableKind] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".psv"), "delimited"),
    **dict.fromkeys((".xlsx", ".xlsm"), "workbook"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}
TABLE_SUFFIXES = tuple(_TABLE_KINDS)
"""Endings of the files that are always tables."""


def table_kind(source: Source) -> TableKind | None:
    """Return the kind of a table that a source is by its name or its first bytes; None for text that may be anything."""
    if source.stored is not None:
        return None
    if source.is_folder:
        return "folder"
    head = source.part(0, 4)
    # Before the name: many a workbook is called .csv.
    if head == b"PK\x03\x04":
        return "workbook"
    if head == b"PAR1":
        return "parquet"
    return _TABLE_KINDS.get(Path(source.name.lower().removesuffix(".gz")).suffix)


_NEEDED: dict[ContractId, tuple[frozenset[str], ...]] = {
    "legal_eval_v1": (frozenset(("schema_version",)), frozenset(("prompt", "task_type"))),
    "batch_v1": (
        *(frozenset(("records", name)) for name in ("dataset_id", "dataset_version", "schema_version")),
        frozenset(("record_id", "input")),
    ),
    "golden_v1": (frozenset(("cases", "version")), frozenset(("user_prompt", "rubric")), frozenset(("cases", "description"))),
    "conversation_v1": (frozenset(("turn_id",)), frozenset(("speaker",))),
}
"""Names of which one set shows a contract by itself; with fewer of them a table may be meant."""


def shows_contract_surely(source: Source, contract: ContractId) -> bool:
    """Return whether more than one common word shows a contract: a column `task_type` is in many a table."""
    if sniff_format(source) == "yaml" or row_document(source) is not None:
        return True
    head = source.head()
    names = first_names(head)
    if contract == "golden_v1" and "cases" in names and b'"user_prompt"' in head:
        return True
    if contract == "batch_v1" and "records" in names and b'"record_id"' in head:
        return True
    return any(needed <= names for needed in _NEEDED[contract])


class FormatGuess(msgspec.Struct, frozen=True):
    """Contract that the content shows; None with the signs that were tried."""

    contract: ContractId | None
    tried: str = ""


# Not a parser: the text may be cut off or invalid, and its contract must be recognised all the same.
_NAME_OR_BRACKET = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*:)?|\Z)|[\[\]{}]', re.DOTALL)
"""A string, which may be cut off at the end of the text, or a bracket."""
_RUN_MEMBER = re.compile(r"""(?m)(?:^|[{,])[ \t]*["']?(?:candidates|datasets|judges|providers|run)["']?\s*:""")
_RECORD_MEMBER = re.compile(r"""["']?\b(?:records|cases|task_type|turn_id)["']?\s*:""")
_LEGAL_VERSION = re.compile(rb'"schema_version"\s*:\s*"legal_eval_v1"')
_TURN = re.compile(rb"(?:turn_id|speaker|assistant_reply)[\"']?\s*:")
_SPACE = rb"[ \t\r\n]*"
_VERSIONED = (rb"", rb"\{", rb'"schema_version"', rb":")
ROW_HEADS: dict[ContractId, re.Pattern[bytes]] = {
    CONTRACTS[contract].id: re.compile(
        _SPACE.join((*_VERSIONED, f'"{contract}"'.encode(), rb",", f'"{member}"'.encode(), rb":", rb"\["))
    )
    for contract, member in ROW_MEMBERS.items()
}
"""Beginnings of the documents in which runs store rows."""
_LIST = re.compile(_SPACE + rb"\[")
_SOME_VERSION = re.compile(rb'[ \t\r\n]*"([^"]*)"')
_NOT_AROUND_ROWS = frozenset(("task_type", "turn_id", "speaker", "records", "cases"))
"""Members of rows, and of the documents of other contracts."""
_TAIL_BYTES = 1 << 16
_SEVERAL_HEAD = re.compile(_SPACE.join((*_VERSIONED, f'"{SEVERAL}"'.encode())))
_REFERENCE_HEAD = re.compile(_SPACE.join((*_VERSIONED, f'"{REFERENCE}"'.encode())))
_TRIED = "looked for records (batch_v1), cases (golden_v1), task_type (legal_eval_v1), and turn_id or speaker (conversation_v1)"


def is_of_a_run(source: Source) -> bool:
    """Return whether a file names datasets, candidates, judges or a run, rather than records."""
    text = source.head().decode("utf-8", "replace")
    return _RUN_MEMBER.search(text) is not None and _RECORD_MEMBER.search(text) is None


def row_document(source: Source) -> ContractId | None:
    """Return the contract whose rows a document holds; None for rows that are lines, and for any other text."""
    head = source.head()
    for contract, start in ROW_HEADS.items():
        written = start.match(head)
        # A line break right after the head means that the document stores rows; a row on one line contains none.
        if written and head[written.end() : written.end() + 1] == b"\n":
            return contract
    found = next((contract for contract in ROW_HEADS if _may_hold_rows(source, head, contract)), None)
    return None if found is None or _has_line_of_its_own(head) else found


def _may_hold_rows(source: Source, head: bytes, contract: ContractId) -> bool:
    """Return whether a text is an object with the list of a contract's rows, and its version before or after them."""
    member = ROW_MEMBERS[contract]
    if f'"{member}"'.encode() not in head or head.lstrip()[:1] != b"{":
        return False
    starts = first_members(head)
    if member not in starts or _LIST.match(head, starts[member]) is None or not _NOT_AROUND_ROWS.isdisjoint(starts):
        return False
    if "schema_version" in starts:
        version = _SOME_VERSION.match(head, starts["schema_version"])
        return version is not None and version.group(1) == contract.encode()
    # The version may follow the rows; reading the document reports whether it does.
    return f'"{contract}"'.encode() in head + source.part(max(0, source.size - _TAIL_BYTES), source.size)


def _has_line_of_its_own(head: bytes) -> bool:
    """Return whether the first line is whole JSON, and others follow."""
    first, _, others = head.lstrip().partition(b"\n")
    return bool(others.strip()) and _is_json(first)


def holds_several(source: Source) -> bool:
    """Return whether a document holds several datasets."""
    return _SEVERAL_HEAD.match(source.head()) is not None


def holds_hashes(source: Source) -> bool:
    """Return whether a source is the input of a run that names its datasets or runs by hash, and holds no records."""
    return _REFERENCE_HEAD.match(source.head()) is not None


def guess_contract(source: Source) -> FormatGuess:
    """Detect the contract by the members of the first object."""
    if sniff_format(source) == "yaml":
        is_turns = _TURN.search(source.head()) is not None
        return (
            FormatGuess("conversation_v1")
            if is_turns
            else FormatGuess(None, "unrecognized format: not JSON, JSONL or conversation_v1 YAML")
        )
    head = source.head()
    contract = row_document(source) or _contract_of(head)
    # The first record may be larger than the head.
    if contract is None and source.size > len(head):
        contract = _contract_of(bytes(source.buffer()[:BEGINNING]).removeprefix(BOM))
    return FormatGuess(contract, "" if contract else _TRIED)


def _contract_of(text: bytes) -> ContractId | None:
    """Detect a contract by several members together: a single one may be an unknown field of another contract.

    Built-in contracts are tried before those of plugins, so a common name, such as `question`, is not a sign by itself.
    """
    names = first_names(text)
    if _LEGAL_VERSION.search(text) and "schema_version" in names:
        return "legal_eval_v1"
    if "records" in names and names & {"dataset_id", "dataset_version", "schema_version"}:
        return "batch_v1"
    # In this order: `turn_id` belongs to one contract alone, while `records` and `record_id` are common words.
    signs: dict[str, ContractId] = {
        "turn_id": "conversation_v1",
        "speaker": "conversation_v1",
        "task_type": "legal_eval_v1",
        "cases": "golden_v1",
        "records": "batch_v1",
        "dataset_id": "batch_v1",
        "record_id": "batch_v1",
        "user_prompt": "golden_v1",
        "reference_answers": "legal_eval_v1",
    }
    return next((contract for name, contract in signs.items() if name in names), None)


def first_names(text: bytes) -> set[str]:
    """Return the names of the first object's members, even of a truncated or invalid text."""
    return set(first_members(text))


def first_members(text: bytes) -> dict[str, int]:
    """Map the first object's members to the offsets of their values, even in a truncated or invalid text."""
    starts: dict[str, int] = {}
    depth = level = 0
    for match in _NAME_OR_BRACKET.finditer(text):
        token = match.group()
        if match.group(1) is not None:
            if match.group(2) and depth == level:
                starts.setdefault(match.group(1).decode("utf-8", "replace"), match.end())
            continue
        # The first object may be in an array, so its depth is noted when it opens.
        depth += 1 if token in b"[{" else -1
        if token == b"{" and not level:
            level = depth
        if level and depth < level:
            break
    return starts


MAX_YAML_BYTES = 8 << 20
"""Bytes of one YAML text (characters of a str)."""


def parse_yaml(data: bytes | str) -> ParsedDocument:
    """Parse a YAML text; the parser is imported with the first one, because few sources are YAML."""
    document: ParsedDocument = import_module("assay.datasets.parsing.strict_yaml").parse_yaml(data)
    return document
