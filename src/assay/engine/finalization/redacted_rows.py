"""Rows of a dataset, and the members around them, as they may be kept: redacted, and still what their contract accepts."""

import re
from typing import Any

import msgspec

from assay.core.canonical import JsonObject
from assay.core.contract import CONTRACTS
from assay.core.input_document import ROW_MEMBERS
from assay.core.redact_rule import REDACTION_MARK
from assay.datasets import read
from assay.datasets.batch_v1.rules import check_head
from assay.datasets.config import ValidationConfig
from assay.datasets.source import open_source
from assay.engine.finalization.forms import OWN_NAMES, ROWS
from assay.store.redact import Redactor

_SHORT_MARKS = ("[R]", "*")
_NOT_IN_DATASET_ID = re.compile(r"[^A-Za-z0-9_.-]+")
_NOT_IN_CASE_ID = re.compile(r"[^a-z0-9-]+")
_SURELY_SHORT = 32
"""No contract has a limit for ids that is less than this."""
_decode, _encode = msgspec.json.decode, msgspec.json.encode


class RowRedactor:
    """Redacts the rows of one dataset.

    A mark may be longer than what it replaces. Where a row would break a limit of its contract that way, its marks become short.
    """

    def __init__(self, redactor: Redactor, contract: str, validation: JsonObject) -> None:
        self._redactor = redactor
        self._contract = contract
        settings = msgspec.convert(validation, ValidationConfig)
        self._config = msgspec.structs.replace(settings, allow_size=True, lint=False)

    def row(self, text: bytes, given_id: str | None, shown_id: str | None) -> bytes:
        """The JSON of a row as it may be kept; `shown_id` is the id that artifacts show for `given_id`."""
        given = _decode(text)
        if self._contract not in CONTRACTS:
            return _encode(self._value(given))
        row = self._with_ids(given, self._value(given), shown_id, is_redacted=shown_id != given_id)
        if not _has_grown(given, row) or self._is_valid(row):
            return _encode(row)
        short_id = _short_id(given_id, shown_id) if given_id and shown_id and shown_id != given_id else shown_id
        short = _no_longer(given, self._value(given))
        return _encode(self._with_ids(given, short, short_id, is_redacted=shown_id != given_id))

    def head(self, given: JsonObject) -> JsonObject:
        """The members of a document around its rows."""
        members: JsonObject = self._redactor.structure(given, ROWS.get(self._contract) or OWN_NAMES)
        if (
            self._contract == "batch_v1"
            and check_head({**_with_dataset_id(given, members), "records": []}, self._config).has_errors
        ):
            members = _no_longer(given, members)
        return _with_dataset_id(given, members)

    def _value(self, given: object) -> Any:
        form = ROWS.get(self._contract)
        return self._redactor.value(given) if form is None else self._redactor.structure(given, form)

    def _with_ids(self, given: Any, row: Any, record_id: str | None, *, is_redacted: bool) -> Any:
        """The row with ids of the form that its contract asks for; ids of which the same is left stay apart."""
        name = CONTRACTS[self._contract].record_id
        if name:
            row[name] = record_id
        if self._contract == "golden_v1" and is_redacted:
            row[name] = _NOT_IN_CASE_ID.sub("-", (record_id or "").lower()).strip("-")
        if self._contract == "legal_eval_v1":
            _number_ids(given, row)
        return row

    def _is_valid(self, row: object) -> bool:
        """True where the contract accepts a dataset of the one row."""
        member = ROW_MEMBERS.get(self._contract) or CONTRACTS[self._contract].member
        document = {**_HEADS.get(self._contract, {"schema_version": self._contract}), member: [row]}
        return read(open_source(_encode(document)), self._contract, config=self._config).is_valid


_HEADS = {
    "batch_v1": {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "created_at": "2026-01-01T00:00:00Z"},
    "golden_v1": {"version": "1.0.0"},
}


def _with_dataset_id(given: JsonObject, members: JsonObject) -> JsonObject:
    name = members.get("dataset_id")
    return members if name == given.get("dataset_id") else {**members, "dataset_id": _NOT_IN_DATASET_ID.sub("_", str(name))}


def _number_ids(given: JsonObject, row: JsonObject) -> None:
    """Give the redacted ids of criteria and choices their number; answers name a choice as it is called then."""
    for member in ("rubric", "choices"):
        names: dict[str, str] = {}
        for number, (before, after) in enumerate(zip(given.get(member) or (), row.get(member) or (), strict=True), 1):
            if before["id"] != after["id"]:
                after["id"] = names[before["id"]] = f"{after['id']}#{number}"
        if member == "choices" and row.get("correct_choice_ids"):
            row["correct_choice_ids"] = [names.get(name, name) for name in given["correct_choice_ids"]]


def _short_id(given: str, shown: str) -> str:
    """An id that is not longer than the given one, unless that is short anyway; the hash at its end keeps it apart."""
    text, _, digest = shown.rpartition("#")
    most = max(len(given), _SURELY_SHORT) - len(digest) - 1
    return f"{REDACTION_MARK.sub(_SHORT_MARKS[0], text)[:most]}#{digest}"


def _has_grown(given: Any, redacted: Any) -> bool:
    """True where a text, or a name, is longer than the one that was given."""
    if isinstance(redacted, dict):
        pairs = zip(given.items(), redacted.items(), strict=True)
        return any(len(after) > len(before) or _has_grown(old, new) for (before, old), (after, new) in pairs)
    if isinstance(redacted, list):
        return any(map(_has_grown, given, redacted))
    return isinstance(redacted, str) and len(redacted) > len(str(given))


def _no_longer(given: Any, redacted: Any) -> Any:
    """The redacted value in which no text is longer than the given one: its marks say less."""
    if isinstance(redacted, dict):
        members: JsonObject = {}
        for (before, old), (after, new) in zip(given.items(), redacted.items(), strict=True):
            name = _no_longer(before, after)
            # Two names of which the same is left stay apart.
            members[f"{name}#{len(members)}" if name in members else name] = _no_longer(old, new)
        return members
    if isinstance(redacted, list):
        return list(map(_no_longer, given, redacted))
    if not isinstance(redacted, str):
        return redacted
    texts = (redacted, *(REDACTION_MARK.sub(mark, redacted) for mark in _SHORT_MARKS))
    return next((text for text in texts if len(text) <= len(str(given))), texts[-1])
