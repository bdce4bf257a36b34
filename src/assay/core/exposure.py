"""Ways to give a setting of a run besides its run file: an option, an HTTP parameter, a field of a form.

They are in the annotation of a field, next to its bounds and its description; the surfaces generate their parts from these.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

# A plan and a run file share their structs. A field that only plans have must still be refused in a run file.
FIXED = Meta(extra_json_schema={"readOnly": True})
"""Marks a field that plans have and run files cannot set."""

# JavaScript and many JSON readers hold integers in a double, which is exact up to 2**53.
_EXACT, _LARGEST = 2**53, 1_000_000_000


class CommandOption(msgspec.Struct, frozen=True):
    """A command-line option of `assay run`; its type and its bounds are those of the setting."""

    help: str = ""
    """Text of the help, if it differs from the description of the key."""
    metavar: str = ""
    name: str = ""
    """Name of the option, if it is not made of the name in a request, as `--max-cost` is of `max_cost`."""
    default: str = ""
    """Text of the help about the default; `{}` stands for the default of the setting."""


class QueryParameter(msgspec.Struct, frozen=True):
    """A query parameter of `POST /v1/runs`."""

    text: str = ""
    """Text of the HTTP reference, if it differs from the help of the option, or the description."""
    name: str = ""
    """Name in a query, if it differs from the name in a request."""
    kind: Any = None
    """Type of the parameter, if it differs from that of the setting."""
    # The key of a submission is a hash of its parameters. A parameter that an older client did not send must not change that hash.
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
    """Ways to give a setting besides the run file; a request can always give it."""

    member: str = ""
    """Name in a request, if it differs from the key."""
    switch: str = ""
    """For a whole section: the key that turns it on."""
    option: CommandOption | None = None
    parameter: QueryParameter | None = None
    form: FormField | None = None
    kind: Any = None
    """Type of option and parameter, where planning checks a bound that they do not."""


def described(description: str) -> Meta:
    """Describe a key that only a run file has."""
    return Meta(description=description)


def exposed(
    description: str,
    *,
    member: str = "",
    switch: str = "",
    option: CommandOption | None = None,
    parameter: QueryParameter | None = None,
    form: FormField | None = None,
    kind: object = None,
) -> Meta:
    """Describe a key that can be given in other ways too, with the members of SettingExposure."""
    exposure = SettingExposure(member=member, switch=switch, option=option, parameter=parameter, form=form, kind=kind)
    return Meta(description=description, extra={"exposure": exposure})


class ExposedSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that can be given besides the run file, with what every surface needs to generate its part."""

    member: str
    """Name in a request."""
    path: tuple[str, ...]
    """Keys in a run file."""
    kind: Any
    """Type without None and without bounds."""
    description: str
    low: Any
    high: Any
    """Inclusive bounds of a number; None without one."""
    option: CommandOption | None
    parameter: QueryParameter | None
    form: FormField | None

    @property
    def is_list(self) -> bool:
        """Return whether several values can be given."""
        return get_origin(self.kind) is tuple

    @property
    def words(self) -> tuple[str, ...]:
        """Permitted values; empty if others are allowed."""
        kind = get_args(self.kind)[0] if self.is_list else self.kind
        return get_args(kind) if get_origin(kind) is Literal else ()

    @property
    def nothing(self) -> object:
        """Value of a request without the setting: an empty text or collection, else None."""
        return () if self.is_list else "" if self.kind is str else {} if get_origin(self.kind) is dict else None

    @property
    def option_name(self) -> str:
        """Name of the option, even if the setting has none."""
        return (self.option.name if self.option else "") or "--" + self.member.replace("_", "-")

    @property
    def option_text(self) -> str:
        """Description of the option."""
        return (self.option.help if self.option else "") or self.description

    @property
    def option_help(self) -> str:
        """Text of the help about the option, with the default."""
        default = self.option.default if self.option else ""
        return self.option_text + (f"  [default: {default}]" if default else "")

    @property
    def parameter_name(self) -> str:
        """Name in a query."""
        return (self.parameter.name if self.parameter else "") or self.member

    @property
    def query_kind(self) -> Any:
        """Type in a query, where None means absent; numbers have bounds within which all programs are exact."""
        if self.parameter is not None and self.parameter.kind is not None:
            return self.parameter.kind
        kind = self.kind
        if kind in (int, float):
            low, high = (-_EXACT, _EXACT) if self.low is None else (self.low, _LARGEST if self.high is None else self.high)
            kind = Annotated[kind, Meta(ge=low, le=high)]
        return kind if self.is_list else kind | None

    @property
    def query_default(self) -> object:
        """Value of an absent parameter."""
        return () if get_origin(self.query_kind) is tuple else None

    @property
    def query_text(self) -> str:
        """Description of the parameter in the HTTP reference."""
        return (self.parameter.text if self.parameter else "") or self.option_text


def settings_struct(
    name: str, fields: Iterable[tuple[str, type, object]], *, module: str, base: type[msgspec.Struct] = msgspec.Struct
) -> type[msgspec.Struct]:
    """Make the base of a struct with settings as its fields; each is a name, a type and a default."""
    return msgspec.defstruct(name, fields, bases=(base,), frozen=True, kw_only=True, module=module)


def exposed_settings(section: type[msgspec.Struct], above: tuple[str, ...] = ()) -> Iterator[ExposedSetting]:
    """Walk the fields of a section and of the sections in it, for settings that can be given besides a run file."""
    hints = get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        kind, metas = unwrapped(hints[field.name])
        path = (*above, field.encode_name)
        exposure = next((meta.extra["exposure"] for meta in metas if meta.extra and "exposure" in meta.extra), None)
        if exposure is not None:
            yield _setting(
                exposure, path, field=field, description=next(meta.description or "" for meta in metas if meta.description)
            )
        # Sections are walked where they stand, so that every surface lists the settings in the order of the definitions.
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from exposed_settings(kind, path)


def _setting(
    exposure: SettingExposure, path: tuple[str, ...], *, field: msgspec.structs.FieldInfo, description: str
) -> ExposedSetting:
    kind, metas = (bool, ()) if exposure.switch else unwrapped(exposure.kind or field.type)
    option = exposure.option and msgspec.structs.replace(exposure.option, default=exposure.option.default.format(field.default))
    return ExposedSetting(
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


def unwrapped(kind: Any) -> tuple[Any, tuple[Meta, ...]]:
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
