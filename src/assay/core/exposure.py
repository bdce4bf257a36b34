"""Where a setting of a run can be given besides its run file: as an option, an HTTP parameter, a field of a form.

The annotation of a field says it, next to its bounds and its description; the surfaces generate their parts from these.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

FIXED = Meta(extra_json_schema={"readOnly": True})
"""Marks a field that plans have and run files cannot set."""

_EXACT, _LARGEST = 2**53, 1_000_000_000


class CommandOption(msgspec.Struct, frozen=True):
    """A command-line option of `assay run`; its type and its bounds are those of the setting."""

    help: str = ""
    """Where it differs from the description of the key."""
    metavar: str = ""
    name: str = ""
    """Where it differs from the name in a request, as `--max-cost` does not from `max_cost`."""
    default: str = ""
    """What the help says about the default; `{}` stands for the default of the setting."""


class QueryParameter(msgspec.Struct, frozen=True):
    """A query parameter of `POST /v1/runs`."""

    text: str = ""
    """Where it differs from the help of the option, or the description."""
    name: str = ""
    """Where it differs from the name in a request."""
    kind: Any = None
    """Its type, where it differs from that of the setting."""
    is_later: bool = False
    """Missing in the first version of the service, whose idempotency keys must keep their meaning."""


class FormField(msgspec.Struct, frozen=True):
    """A field of the form that starts a run, for a setting with a parameter."""

    label: str
    placeholder: str
    words: Mapping[str, str] = {}
    """Labels of the values that can be chosen (`true` and `false` of a switch); the placeholder stands for none of them."""
    is_extra: bool = False
    """Below "More settings"."""
    needs_rejected: bool = False
    """Shown only for a dataset that has invalid records."""


class SettingExposure(msgspec.Struct, frozen=True, kw_only=True):
    """Where a setting can be given besides the run file; always in a request too."""

    member: str = ""
    """Its name in a request, where that differs from the key."""
    switch: str = ""
    """For a whole section: the key that turns it on."""
    option: CommandOption | None = None
    parameter: QueryParameter | None = None
    form: FormField | None = None
    kind: Any = None
    """The type of option and parameter, where planning checks a bound that they do not."""


def described(description: str) -> Meta:
    """Describe a key that only a run file has."""
    return Meta(description=description)


def exposed(description: str, **exposure: Any) -> Meta:
    """Describe a key that can be given elsewhere too; `exposure` has the members of Exposure."""
    return Meta(description=description, extra={"exposure": SettingExposure(**exposure)})


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that can be given besides the run file, with what every surface needs to generate its part."""

    member: str
    """Its name in a request."""
    path: tuple[str, ...]
    """Its keys in a run file."""
    kind: Any
    """Its type, without None and without bounds."""
    description: str
    low: Any
    high: Any
    """Bounds of a number, which it may reach; None where there is none."""
    option: CommandOption | None
    parameter: QueryParameter | None
    form: FormField | None

    @property
    def is_list(self) -> bool:
        """True where several values can be given."""
        return get_origin(self.kind) is tuple

    @property
    def words(self) -> tuple[str, ...]:
        """The only values that it may have; empty where there are others."""
        kind = get_args(self.kind)[0] if self.is_list else self.kind
        return get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def nothing(self) -> Any:
        """The value of a request that does not give it: an empty text or collection, else None."""
        return () if self.is_list else "" if self.kind is str else {} if get_origin(self.kind) is dict else None

    @property
    def option_name(self) -> str:
        """The option that gives it, also where there is none."""
        return (self.option.name if self.option else "") or "--" + self.member.replace("_", "-")

    @property
    def option_text(self) -> str:
        """What its option does."""
        return (self.option.help if self.option else "") or self.description

    @property
    def option_help(self) -> str:
        """What the help says of its option, with the default."""
        default = self.option.default if self.option else ""
        return self.option_text + (f"  [default: {default}]" if default else "")

    @property
    def parameter_name(self) -> str:
        """Its name in a query."""
        return (self.parameter.name if self.parameter else "") or self.member

    @property
    def query_kind(self) -> Any:
        """Its type in a query, where None is not given; numbers have bounds within which all programs are exact."""
        if self.parameter is not None and self.parameter.kind is not None:
            return self.parameter.kind
        kind = self.kind
        if kind in (int, float):
            low, high = (-_EXACT, _EXACT) if self.low is None else (self.low, _LARGEST if self.high is None else self.high)
            kind = Annotated[kind, Meta(ge=low, le=high)]
        return kind if self.is_list else kind | None

    @property
    def query_default(self) -> Any:
        """The value of its parameter where it is not given."""
        return () if get_origin(self.query_kind) is tuple else None

    @property
    def query_text(self) -> str:
        """What the HTTP reference says of its parameter."""
        return (self.parameter.text if self.parameter else "") or self.option_text


def settings_struct(
    name: str, fields: Iterable[tuple[str, Any, Any]], *, module: str, base: type[msgspec.Struct] = msgspec.Struct
) -> type[msgspec.Struct]:
    """Make the base of a struct that has settings as its fields; each is a name, a type and a default."""
    return msgspec.defstruct(name, fields, bases=(base,), frozen=True, kw_only=True, module=module)


def exposed_settings(section: type[msgspec.Struct], above: tuple[str, ...] = ()) -> Iterator[Setting]:
    """Walk the fields of a section and of the sections in it, for settings that can be given besides a run file."""
    hints = get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        kind, metas = _unwrapped(hints[field.name])
        path = (*above, field.encode_name)
        exposure = next((meta.extra["exposure"] for meta in metas if meta.extra and "exposure" in meta.extra), None)
        if exposure is not None:
            yield _setting(
                exposure, path, field=field, description=next(meta.description or "" for meta in metas if meta.description)
            )
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from exposed_settings(kind, path)


def _setting(exposure: SettingExposure, path: tuple[str, ...], *, field: msgspec.structs.FieldInfo, description: str) -> Setting:
    kind, metas = (bool, ()) if exposure.switch else _unwrapped(exposure.kind or field.type)
    option = exposure.option and msgspec.structs.replace(exposure.option, default=exposure.option.default.format(field.default))
    return Setting(
        member=exposure.member or path[-1],
        path=(*path, exposure.switch) if exposure.switch else path,
        kind=kind,
        description=description,
        low=next((meta.ge for meta in metas if meta.ge is not None), None),
        high=next((meta.le for meta in metas if meta.le is not None), None),
        option=option,
        parameter=exposure.parameter,
        form=exposure.form,
    )


def _unwrapped(kind: Any) -> tuple[Any, tuple[Meta, ...]]:
    """Return a type without None and annotations, and its annotations."""
    metas: tuple[Meta, ...] = ()
    while True:
        options = [option for option in get_args(kind) if option is not type(None)]
        if get_origin(kind) is Annotated:
            metas += kind.__metadata__
            kind = kind.__origin__
        elif get_origin(kind) in (Union, UnionType) and len(options) == 1:
            kind = options[0]
        else:
            return kind, metas
