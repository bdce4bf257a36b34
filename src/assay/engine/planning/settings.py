"""Plain values of a settings file into the members of a typed one: every problem is found, none raises."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from assay.core.exposure import FIXED
from assay.core.issue import Path
from assay.datasets.parsing.checks import FindingList, array_at, name_of, nearest, object_at, retype_hint, short, type_name, word_at

_BAD: Any = object()
"""Stands for a value with a finding; the settings go on without it."""
_KINDS: dict[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.IntType: "an integer",
    inspect.FloatType: "a number",
}
"""What hints call the types of plain values."""
_PLAIN_TYPES: dict[type[inspect.Type], tuple[type, ...]] = {
    inspect.StrType: (str,),
    inspect.BoolType: (bool,),
    inspect.IntType: (int,),
    inspect.FloatType: (float, int),
    inspect.LiteralType: (str,),
    inspect.StructType: (dict,),
    inspect.DictType: (dict,),
    inspect.VarTupleType: (list,),
    inspect.NoneType: (type(None),),
}
"""Types of plain values that may become a value of each type."""


class FieldAliases(msgspec.Struct, frozen=True):
    """Other names that people write for the members of one type."""

    older: Mapping[str, str] = {}
    """Accepted names, each with the one that it stands for."""
    refused: Mapping[str, str] = {}
    """Names that are never right, each with what to do instead."""


Wordings = Mapping[type, FieldAliases]


def read_settings(value: Any, kind: type, *, found: FindingList, wordings: Wordings, path: Path = ()) -> dict[str, Any]:
    """The members of `value` that fit the struct type `kind`, under their own names; what does not fit becomes a finding."""
    read = _SettingsReader(found, wordings).read(value, inspect.type_info(kind), path)
    return {} if read is _BAD else read


class _SettingsReader:
    """One walk along a value and its type."""

    def __init__(self, found: FindingList, wordings: Wordings) -> None:
        self._found = found
        self._wordings = wordings

    def read(self, value: Any, expected: inspect.Type, path: Path) -> Any:
        match _bare(expected):
            case inspect.UnionType(types=options):
                return self.read(value, _option(value, options), path)
            case inspect.StructType() as struct:
                return self._struct(value, struct, path)
            case inspect.VarTupleType(item_type=item):
                return self._list(value, item, path)
            case inspect.DictType(value_type=member):
                return self._mapping(value, member, path)
            case inspect.LiteralType(values=words):
                word = word_at(self._found, value, path, words=[str(word) for word in words])
                return _BAD if word is None else word
            case inspect.AnyType() | inspect.NoneType():
                return value
            case plain:
                return self._plain(value, plain, path, must=_title(expected) or _described(plain))

    def _struct(self, value: Any, expected: inspect.StructType, path: Path) -> Any:
        members = object_at(self._found, value, path)
        if members is None:
            return _BAD
        fields = {field.encode_name: field for field in expected.fields if not _is_fixed(field.type)}
        wording = self._wordings.get(expected.cls, FieldAliases())
        read: dict[str, Any] = {}
        for name, member in members.items():
            known = wording.older.get(name, name)
            if known not in fields:
                self._unknown((*path, name), fields, wording)
            elif known != name and known in members:
                self._found.add(
                    "unsupported_field", (*path, name), f"'{name}' is the older name of '{known}'; keep one", on_key=True
                )
            else:
                item = self.read(member, fields[known].type, (*path, name))
                read |= {} if item is _BAD else {known: item}
        given = {wording.older.get(name, name) for name in members}
        required = [name for name, field in fields.items() if field.required]
        for name in required:
            if name not in given:
                self._found.missing((*path, name))
        return _BAD if any(name not in read for name in required) else read

    def _unknown(self, path: Path, fields: Collection[str], wording: FieldAliases) -> None:
        name = str(path[-1])
        if name in wording.refused:
            self._found.add("unsupported_field", path, f"'{name}' cannot be set here", hint=wording.refused[name], on_key=True)
            return
        hint = nearest(name, (*fields, *wording.older)) or f"known are {', '.join(sorted(fields))}"
        self._found.add("unsupported_field", path, f"unknown key {short(name)}", hint=hint, on_key=True)

    def _list(self, value: Any, item: inspect.Type, path: Path) -> Any:
        items = array_at(self._found, value, path)
        if items is None:
            return _BAD
        read = [self.read(member, item, (*path, index)) for index, member in enumerate(items)]
        # A wrong entry keeps its seat, so that indexes go on meaning what they mean in the file.
        return ["" if member is _BAD else member for member in read]

    def _mapping(self, value: Any, member: inspect.Type, path: Path) -> Any:
        members = object_at(self._found, value, path)
        if members is None:
            return _BAD
        read = {name: self.read(item, member, (*path, name)) for name, item in members.items()}
        return {name: item for name, item in read.items() if item is not _BAD}

    def _plain(self, value: Any, expected: inspect.Type, path: Path, *, must: str) -> Any:
        if type(value) not in _PLAIN_TYPES[type(expected)]:
            message = f"{name_of(path)} must be {must}, not {type_name(value)}"
            self._found.add("invalid_field_type", path, message, hint=retype_hint(_KINDS.get(type(expected), ""), value))
            return _BAD
        if not _is_within(value, expected):
            # A wrong text is not repeated: it may be the key that somebody wrote where its variable belongs.
            shown = "" if type(value) is str else f", not {str(value)[:40]}"
            self._found.add("value_out_of_range", path, f"{name_of(path)} must be {must}{shown}")
            return _BAD
        return value


def _bare(expected: inspect.Type) -> inspect.Type:
    """The type without its description."""
    return _bare(expected.type) if isinstance(expected, inspect.Metadata) else expected


def _title(expected: inspect.Type) -> str:
    """What the type calls its values, where it says so."""
    described = (expected.extra_json_schema if isinstance(expected, inspect.Metadata) else None) or {}
    return str(described.get("title", ""))


def _is_fixed(expected: inspect.Type) -> bool:
    return isinstance(expected, inspect.Metadata) and (expected.extra_json_schema or {}) == FIXED.extra_json_schema


def _option(value: Any, options: Collection[inspect.Type]) -> inspect.Type:
    """The first option that such a value may become, or else the first one, to be complained about."""
    fitting = (option for option in options if type(value) in _PLAIN_TYPES.get(type(_bare(option)), ()))
    return next(fitting, next(option for option in options if not isinstance(_bare(option), inspect.NoneType)))


def _is_within(value: Any, expected: inspect.Type) -> bool:
    if isinstance(expected, inspect.StrType):
        return len(value) >= (expected.min_length or 0) and (expected.pattern is None or bool(re.search(expected.pattern, value)))
    if isinstance(expected, inspect.IntType | inspect.FloatType):
        low, above, high = expected.ge, expected.gt, expected.le
        return not (
            (low is not None and value < low) or (above is not None and value <= above) or (high is not None and value > high)
        )
    return True


def _described(expected: inspect.Type) -> str:
    """What a value must be, in words: `a number from 0 to 2`."""
    match expected:
        case inspect.StrType(min_length=low):
            return "a text that is not empty" if low else "a text"
        case inspect.IntType() | inspect.FloatType():
            return ("an integer" if isinstance(expected, inspect.IntType) else "a number") + _range_text(expected)
        case _:
            return "true or false"


def _range_text(expected: inspect.IntType | inspect.FloatType) -> str:
    low, above, high = expected.ge, expected.gt, expected.le
    if low is not None and high is not None:
        return f" from {low:,} to {high:,}"
    if above is not None:
        return f" above {above:,}"
    return "" if low is None else f" from {low:,} on"
