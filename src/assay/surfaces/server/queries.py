"""Query parameters as typed values; unknown or invalid ones are reported, never ignored."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, inspect

from assay.core.contract import ContractId
from assay.core.exposure import settings_struct
from assay.core.record_query import VALID, RecordSearch
from assay.core.runs import State
from assay.core.settings import CLUSTER_TEXT, run_settings
from assay.surfaces.server.errors import AnyRequest, HttpError

ContractChoice = Literal[ContractId, "auto"]
_END = r"$(?!\n)"
"""Matches the end, and not a line feed before it, in the regular expressions of Python and of OpenAPI."""
Cursor = Annotated[str, Meta(pattern=rf"^[0-9]{{1,12}}{_END}")]
DatasetName = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,127}}{_END}")]
# The form of an id that becomes a folder's name: no slash, and no dot at its beginning.
RunId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9][A-Za-z0-9_.-]{{0,127}}{_END}")]
PageSize = Annotated[int, Meta(ge=1, le=1000, description="How many at most.")]
T = TypeVar("T", bound=msgspec.Struct)


def _says(description: str) -> Meta:
    return Meta(description=description)


class NoQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An address that takes no parameters."""


class CheckQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a validation."""

    contract: Annotated[ContractChoice, _says("The contract of the body; `auto` recognises it.")] = "batch_v1"
    allow_size: Annotated[bool, _says(run_settings()["allow_size"].query_text)] = False
    null_as_absent: Annotated[bool, _says(run_settings()["null_as_absent"].query_text)] = False


class SubmittedDataset(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a submitted dataset."""

    contract: Annotated[ContractChoice, _says("The contract of the body; `auto` recognises it.")] = "batch_v1"
    name: Annotated[DatasetName | None, _says("What the dataset is called, where its contract gives it no id.")] = None


SUBMITTED = tuple(setting for setting in run_settings().values() if setting.parameter is not None)
"""Settings that have a parameter."""
# mypy cannot see members that are made from the definitions of settings.
if TYPE_CHECKING:
    _SubmittedSettings = SubmittedDataset
else:
    _SubmittedSettings = settings_struct(
        "_SubmittedSettings",
        [(one.parameter_name, Annotated[one.query_kind, _says(one.query_text)], one.query_default) for one in SUBMITTED],
        base=SubmittedDataset,
        module=__name__,
    )


class SubmitQuery(_SubmittedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a run, over the operator's defaults: those of `core/settings.py` that have a parameter."""

    if TYPE_CHECKING:

        def __init__(self, **given: object) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def settings(self) -> dict[str, Any]:
        """Return the settings by their names in a request."""
        values = ((setting, getattr(self, setting.parameter_name)) for setting in SUBMITTED)
        given = [(one, value) for one, value in values if value is not None]
        # An upload has one candidate, where a run may have several.
        return {one.member: (value,) if one.is_list and isinstance(value, str) else value for one, value in given}


class RunsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of the list of runs."""

    limit: PageSize = 50
    cursor: Annotated[RunId | None, _says("The `next_cursor` of the page before.")] = None
    state: Annotated[
        State | Literal["damaged", "unreachable", "interrupted"] | None,
        _says("Only runs in this state; `interrupted` are started runs that no process is working on, in any state."),
    ] = None
    dataset: Annotated[Annotated[str, Meta(max_length=128)] | None, _says("Only runs over the dataset with this id.")] = None
    model: Annotated[Annotated[str, Meta(max_length=256)] | None, _says("Only runs of this candidate.")] = None
    group: Annotated[RunId | None, _says("Only runs of this group.")] = None


class PageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a page of a list."""

    limit: PageSize = 100
    cursor: Annotated[Cursor | None, _says("The `next_cursor` of the page before.")] = None


class RecordsQuery(RecordSearch, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of the list of records."""

    limit: PageSize = 100
    cursor: Annotated[Cursor | None, _says("The `next_cursor` of the page before.")] = None

    @property
    def search(self) -> RecordSearch:
        """Search that the parameters describe; without a status it finds the valid records."""
        named = {name: getattr(self, name) for name in RecordSearch.__struct_fields__}
        return RecordSearch(**{**named, "status": self.status or VALID})


class RecordQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a record."""

    sample: Annotated[Annotated[int, Meta(ge=0, le=1000)] | None, _says("Of several answers the one with this number.")] = None


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of an export."""

    format: Literal["json", "jsonl", "csv", "parquet", "xlsx", "eval-results", "responses", "dataset"] = "jsonl"


class CompareQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a comparison."""

    before: Annotated[RunId, _says("The run that was there first.")]
    after: Annotated[RunId, _says("The run that is compared with it.")]
    cluster: Annotated[Annotated[str, Meta(max_length=128)] | None, _says(CLUSTER_TEXT)] = None
    flips: Annotated[Annotated[int, Meta(ge=0, le=1000)], _says("Maximum number of records with changed results.")] = 20


def read_query(request: AnyRequest, kind: type[T]) -> T:
    """Decode the query of a request; raises HttpError."""
    fields = {field.encode_name: _list_item(field.type) for field in inspect.type_info(kind).fields}  # type: ignore[attr-defined]  # a struct
    lists = {name: item for name, item in fields.items() if item is not None}
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in lists:
            # Words can be listed with commas; other values, such as names of models, may contain one.
            given.setdefault(name, []).extend(value.split(",") if any(_words(lists[name])) else [value])
        elif name in given:
            # Which of two values counts would be a guess.
            raise HttpError(400, f"the parameter '{name[:64]}' is given twice")
        else:
            given[name] = value
    try:
        # Not strict, since everything in a query is text.
        read = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise HttpError(400, f"the query cannot be used: {why_unusable(kind, given, problem)}") from problem
    # `null` is read as None by msgspec, which would turn a typo into a default.
    empty = [name for name in given if getattr(read, name) is None]
    if empty:
        raise HttpError(400, f"the query cannot be used: '{empty[0]}' is not a value for '{given[empty[0]]}'")
    return read


def why_unusable(kind: type[msgspec.Struct], given: Mapping[str, object], problem: msgspec.ValidationError) -> str:
    """Describe an invalid query: a parameter with certain values has another one."""
    for field in inspect.type_info(kind).fields:  # type: ignore[attr-defined]  # a struct
        words = list(_words(field.type))
        value = given.get(field.encode_name)
        if words and isinstance(value, str) and value not in words:
            return f"{field.encode_name} is '{value[:64]}'; allowed: {', '.join(words)}"
    return str(problem)


def _words(kind: inspect.Type) -> Iterator[str]:
    """List the values of a parameter; empty for one that takes anything else."""
    # Annotations and unions with None are around the words.
    if isinstance(kind, inspect.Metadata):
        yield from _words(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _words(member)
    elif isinstance(kind, inspect.LiteralType):
        yield from (value for value in kind.values if isinstance(value, str))


def _list_item(kind: inspect.Type) -> inspect.Type | None:
    """Return the type of one value of a parameter that takes several; None for any other."""
    bare = kind.type if isinstance(kind, inspect.Metadata) else kind
    return bare.item_type if isinstance(bare, inspect.VarTupleType) else None
