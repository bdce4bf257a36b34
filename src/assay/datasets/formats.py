"""Which format a source is written in, and which contract its content follows."""

import re
from typing import Any

import msgspec

from assay.core.case import ContractId
from assay.datasets.source import Format, Source, filled_lines

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


class _Top(msgspec.Struct):
    """The members that tell contracts apart; everything else is skipped unread."""

    schema_version: Any = msgspec.UNSET
    records: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    dataset_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    cases: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    task_type: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    turn_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    speaker: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_SIGNS: tuple[tuple[ContractId, re.Pattern[bytes]], ...] = (
    ("batch_v1", re.compile(rb'"records"\s*:|"dataset_id"\s*:|"record_id"\s*:')),
    ("golden_v1", re.compile(rb'"cases"\s*:|"user_prompt"\s*:')),
    ("legal_eval_v1", re.compile(rb'"legal_eval_v1"|"task_type"\s*:')),
    ("conversation_v1", re.compile(rb'"?(?:turn_id|speaker|assistant_reply)"?\s*:')),
)
"""Words that show what a text is meant to be, even if no parser reads it."""
_TRIED = "looked for records (batch_v1), cases (golden_v1), task_type (legal_eval_v1), and turn_id or speaker (conversation_v1)"


def guess_contract(source: Source) -> Guess:
    """The contract whose members stand at the top of the source, or whose words appear near its start."""
    if sniff_format(source) == "yaml":
        is_turns = _SIGNS[-1][1].search(source.head()) is not None
        return (
            Guess("conversation_v1")
            if is_turns
            else Guess(None, "YAML is read for conversation_v1; found neither turn_id nor speaker")
        )
    contract = _contract_of(_first_object(source))
    if contract is None:
        head = source.head()
        contract = next((contract for contract, sign in _SIGNS if sign.search(head)), None)
    return Guess(contract, "" if contract else _TRIED)


def _first_object(source: Source) -> _Top:
    """The members of the document, of its first line, or of its first element, as far as the source's head goes."""
    head = source.head().lstrip()
    for text in (head, head.partition(b"\n")[0]):
        try:
            decoded = msgspec.json.decode(text, type=_Top | list[_Top])
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            continue
        if decoded:
            return decoded[0] if isinstance(decoded, list) else decoded
    return _Top()


def _contract_of(top: _Top) -> ContractId | None:
    present = {name for name in _Top.__struct_fields__ if getattr(top, name) is not msgspec.UNSET}
    if present & {"records", "dataset_id"}:
        return "batch_v1"
    if "cases" in present:
        return "golden_v1"
    if "task_type" in present or top.schema_version == "legal_eval_v1":
        return "legal_eval_v1"
    return "conversation_v1" if present & {"turn_id", "speaker"} else None
