"""Which format a source is written in, and which contract its content follows."""

import re

import msgspec

from assay.core.contract import CONTRACTS, ContractId, Format
from assay.core.input_document import ROW_MEMBERS, SEVERAL
from assay.datasets.source import BEGINNING, BOM, Source, filled_lines

# Patterns that are tried at every line take no line breaks: a file of empty lines would be read once for each of them.
_BARE_KEY = re.compile(rb"[\s\[{-]*[A-Za-z_][A-Za-z0-9_ -]*:(?:\s|$)")
"""A mapping whose first name has no quotes is YAML."""


def sniff_format(source: Source) -> Format:
    """What the name says, or else what the content looks like."""
    if source.format is not None:
        return source.format
    head = source.head()
    start = head.lstrip()[:1]
    if start not in (b"[", b"{") or _BARE_KEY.match(head):
        return "yaml"
    lines = filled_lines(source)
    first, second = next(lines, None), next(lines, None)
    return "jsonl" if first and second and _is_json(first.content) else "json"


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


class Guess(msgspec.Struct, frozen=True):
    """The contract that the content shows, or why none was recognised."""

    contract: ContractId | None
    tried: str = ""


_NAME_OR_BRACKET = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)(?:"(\s*:)?|\Z)|[\[\]{}]', re.DOTALL)
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
"""How the documents begin that runs store rows in."""
_SEVERAL_HEAD = re.compile(_SPACE.join((*_VERSIONED, f'"{SEVERAL}"'.encode())))
_TRIED = "looked for records (batch_v1), cases (golden_v1), task_type (legal_eval_v1), and turn_id or speaker (conversation_v1)"


def is_of_a_run(source: Source) -> bool:
    """True for a file that names datasets, candidates, judges or a run, rather than records."""
    text = source.head().decode("utf-8", "replace")
    return _RUN_MEMBER.search(text) is not None and _RECORD_MEMBER.search(text) is None


def row_document(text: bytes) -> ContractId | None:
    """The contract whose rows a document holds, by the beginning of the document."""
    return next((contract for contract, head in ROW_HEADS.items() if head.match(text)), None)


def holds_several(source: Source) -> bool:
    """True for a document with several datasets."""
    return _SEVERAL_HEAD.match(source.head()) is not None


def guess_contract(source: Source) -> Guess:
    """The contract whose members the first object of the source has."""
    if sniff_format(source) == "yaml":
        is_turns = _TURN.search(source.head()) is not None
        return (
            Guess("conversation_v1")
            if is_turns
            else Guess(None, "YAML is read for conversation_v1; found neither turn_id nor speaker")
        )
    head = source.head()
    contract = _contract_of(head)
    if contract is None and source.size > len(head):
        contract = _contract_of(bytes(source.buffer()[:BEGINNING]).removeprefix(BOM))
    return Guess(contract, "" if contract else _TRIED)


def _contract_of(text: bytes) -> ContractId | None:
    """A member decides only together with its neighbours: any of them may be an unknown field of another contract.

    Contracts of ours are looked for before those of plugins, so a usual word, such as `question`, is no sign by itself.
    """
    stored = row_document(text)
    if stored is not None:
        return stored
    names = first_names(text)
    if _LEGAL_VERSION.search(text) and "schema_version" in names:
        return "legal_eval_v1"
    if "records" in names and names & {"dataset_id", "dataset_version", "schema_version"}:
        return "batch_v1"
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
    """The names of the first object's members, whether or not the text is whole or right."""
    names: set[str] = set()
    depth = level = 0
    for match in _NAME_OR_BRACKET.finditer(text):
        token = match.group()
        if match.group(1) is not None:
            if match.group(2) and depth == level:
                names.add(match.group(1).decode("utf-8", "replace"))
            continue
        depth += 1 if token in b"[{" else -1
        if token == b"{" and not level:
            level = depth
        if level and depth < level:
            break
    return names
