"""Types and groups of options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar

import click

from assay.core.errors import UsageProblem
from assay.core.exposure import CommandOption as SettingOption
from assay.core.exposure import ExposedSetting
from assay.core.runs import RunBackend, TemporalServer
from assay.core.settings import CLUSTER_TEXT, ColumnSection, run_settings
from assay.surfaces.cli.exits import UnknownWord

OptionValues = dict[str, Any]
"""Options of a command by their parameters, converted by click to the types that they declare."""
ALL = "all"
_LAST_PORT = 65535


class Number(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; fails as click's own types do."""
        # click's FloatRange accepts `nan` and `inf`, and `nan` is within no bounds and beyond none.
        number: float = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value!r} is not a number to compare with.", param, ctx)
        return number


class Port(click.IntRange):
    """A port to listen on; 0 is any that is free."""

    def __init__(self) -> None:
        super().__init__(0, _LAST_PORT)

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the port; fails as click's own types do."""
        text = str(value)
        # `int` also takes `8_000` and digits of other scripts; neither is a port that people mean.
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _LAST_PORT):
            self.fail(f"{text!r} is not a port number (1 to {_LAST_PORT})", param, ctx)
        return int(text)


def number_or_all(text: str, *, option: str) -> int | None:
    """Parse a number or `all`, which is None; raises UsageProblem."""
    if text == ALL:
        return None
    if not text.isascii() or not text.isdigit():
        raise UsageProblem(f"{option} takes a number or '{ALL}', not '{text}'")
    return int(text)


class WordChoice(click.Choice[str]):
    """One of several words; the error for another one names it, so that the nearest can be found."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word, or raise UnknownWord."""
        if value in self.choices:
            return str(value)
        raise UnknownWord(self.get_invalid_choice_message(value, ctx), str(value), param=param, known=self.choices)


Decorated = TypeVar("Decorated", bound=Callable[..., Any])
CommandOption = Callable[[Decorated], Decorated]


def setting_option(member: str, **changed: Any) -> Callable[[Decorated], Decorated]:
    """Make the option of a setting from its definition; `changed` are attributes of click's option that differ for a command."""
    setting = run_settings()[member]
    option = setting.option or SettingOption("")
    attributes: dict[str, Any] = {"help": setting.option_help, "metavar": option.metavar or None, "multiple": setting.is_list}
    if setting.kind is bool:
        # A flag that is not given stays False, and callers treat False as "not given": the run file decides.
        attributes["is_flag"] = True
    elif setting.words:
        attributes["type"] = WordChoice(setting.words)
    elif setting.kind is float:
        attributes["type"] = Number(setting.low, setting.high)
    elif setting.kind is int:
        attributes["type"] = int if setting.low is None else click.IntRange(setting.low, setting.high)
    return click.option(setting.option_name, member, **{**attributes, **changed})


def table_options(command: Decorated) -> Decorated:
    """Add the options that name the columns of a table."""
    for setting in reversed(list(table_settings().values())):
        command = setting_option(setting.member)(command)
    return command


def table_settings() -> dict[str, ExposedSetting]:
    """Return the settings that say how a table is read, by their names in a request."""
    return {name: setting for name, setting in run_settings().items() if setting.path[0] in ("columns", "sheet")}


def columns_of(given: Mapping[str, Any]) -> ColumnSection:
    """Return the columns among the values of options, by the names of their settings in a request."""
    named = {setting.path[-1]: given[member] for member, setting in table_settings().items() if setting.path[0] == "columns"}
    return ColumnSection(**{role: value for role, value in named.items() if value})


def quiet_option(command: Decorated) -> Decorated:
    """Add `-q`, the same for every command that shows progress."""
    return _option(command, "-q", "--quiet", is_flag=True, help="No progress on standard error.")


def verbose_option(text: str = "List every record with its score and reason.") -> Callable[[Decorated], Decorated]:
    """Make the option `-v`; the text says what is listed."""
    return lambda command: _option(command, "-v", "--verbose", is_flag=True, help=text)


def cluster_option(command: Decorated) -> Decorated:
    """Add `--cluster KEY`, the same for every command that compares runs."""
    return _option(command, "--cluster", metavar="KEY", help=f"{CLUSTER_TEXT}  [default: the plan's]")


def slices_option(text: str) -> Callable[[Decorated], Decorated]:
    """Make the option `--slices NAMES`; `slice_names` reads its value."""
    return lambda command: _option(
        command, "--slices", metavar="NAMES", help=f"{text}, separated by commas.  [default: the plan's]"
    )


def slice_names(text: str | None) -> tuple[str, ...] | None:
    """Split the value of `--slices`; None for the plan's."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def chart_option(text: str) -> Callable[[Decorated], Decorated]:
    """Make the option `--chart FILE`."""
    return lambda command: _option(command, "--chart", metavar="FILE", help=text)


def _option(command: Decorated, *names: str, **attributes: Any) -> Decorated:
    option: Callable[[Decorated], Decorated] = click.option(*names, **attributes)
    return option(command)


_REST = {
    "namespace": ("--temporal-namespace", "NAME", "Temporal namespace.  [default: default]"),
    "task_queue": ("--task-queue", "NAME", "Task queue of runs and workers.  [default: assay]"),
    "server_ca": ("--temporal-ca", "FILE", "The certificate that signs the server's (PEM).  [default: what the machine trusts]"),
    "server_name": ("--temporal-server-name", "NAME", "The name in the server's certificate, if it is not the host's."),
    "client_certificate": ("--temporal-certificate", "FILE", "The certificate that the server knows us by (PEM, mTLS)."),
    "client_key": ("--temporal-key", "FILE", "The key of that certificate (PEM)."),
    "api_key_variable": ("--temporal-api-key-variable", "NAME", "The environment variable that holds the API key."),
}
"""Options of the connection to Temporal, by member of TemporalServer: name, metavar, help."""


def ledger_option(text: str) -> Callable[[Decorated], Decorated]:
    """Make the option `--ledger ADDRESS`, for commands that start or execute runs."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--ledger", metavar="ADDRESS", default="", envvar="ASSAY_LEDGER", help=text
    )
    return option


def store_option(command: Decorated) -> Decorated:
    """Add `--store ADDRESS`, for commands that finish runs."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--store",
        metavar="ADDRESS",
        default="",
        envvar="ASSAY_STORE",
        help="Also publish the artifacts to this object store: s3://bucket/prefix.  [default: none]",
    )
    return option(command)


def engine_option(command: Decorated) -> Decorated:
    """Add `--engine NAME`, for commands that can execute a run themselves."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--engine",
        type=WordChoice(("local", "temporal")),
        envvar="ASSAY_ENGINE",
        help="Where records are evaluated: in this process, or by workers of a Temporal server (assay worker).  [default: local]",
    )
    return option(command)


def temporal_options(*, is_short: bool) -> Callable[[Decorated], Decorated]:
    """Make `--temporal HOST:PORT` and the options of its connection, which a short help hides."""

    def decorate(command: Decorated) -> Decorated:
        text = "Encrypt the connection; implied by a certificate or an API key."
        # Applied from the last to the first, since decorators put each option before those that are there.
        tls = click.option("--temporal-tls", is_flag=True, envvar="ASSAY_TEMPORAL_TLS", help=text, hidden=is_short)
        command = tls(command)
        for member, (name, metavar, text) in reversed(_REST.items()):
            # Every option has a variable, so that a service can be configured without a command line.
            variable = "ASSAY_" + name.removeprefix("--").replace("-", "_").upper()
            is_hidden = is_short and member != "task_queue"
            option = click.option(name, f"temporal_{member}", metavar=metavar, envvar=variable, help=text, hidden=is_hidden)
            command = option(command)
        more = " How else it is reached: assay worker --help." if is_short else ""
        address: Callable[[Decorated], Decorated] = click.option(
            "--temporal", metavar="HOST:PORT", envvar="ASSAY_TEMPORAL", help=f"Temporal server.{more}"
        )
        return address(command)

    return decorate


def keeping_options(command: Decorated) -> Decorated:
    """Add `--ledger` and `--store`, for commands whose new run is always executed in this process."""
    kept = ledger_option("Keep the run in PostgreSQL until it ends: postgresql://user@host/database.  [default: a file]")
    return kept(store_option(command))


def placement_options(command: Decorated) -> Decorated:
    """Add the options that choose ledger, store and engine of a new run."""
    return keeping_options(engine_option(temporal_options(is_short=True)(command)))


def check_no_placement(context: click.Context) -> None:
    """Raise UsageProblem when the command line chooses ledger, store or engine for a run of a server."""
    for name in ("ledger", "store", "engine"):
        # From the environment these are settings of the machine, which are meant for runs made there.
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise UsageProblem(f"--{name} cannot be used with --server", hint="the server stores its runs in its own folder")


def kept_here(given: OptionValues, what: str, *, is_quiet: bool) -> RunBackend:
    """Return ledger and store of a run that this process executes; print a note if ASSAY_ENGINE asks for workers."""
    # The variable is set for a whole machine; the command is still what was asked for, so it is a note and no
    # error.
    if os.environ.get("ASSAY_ENGINE") == "temporal" and not is_quiet:
        click.echo(f"assay: {what} is made on this machine; ASSAY_ENGINE is not for it", err=True)
    return RunBackend(ledger=given["ledger"], store=given["store"])


def placement_of(given: OptionValues) -> RunBackend:
    """Remove ledger, store and engine from the options and return them; raises UsageProblem for contradictions."""
    # Popped, because the rest of `given` is converted to a struct that forbids unknown members.
    ledger, store, engine = given.pop("ledger", "") or "", given.pop("store", "") or "", given.pop("engine", None)
    server = server_of(given)
    if engine != "temporal":
        return RunBackend(ledger=ledger, store=store)
    if server is None:
        raise UsageProblem("--engine temporal needs the address of a server", hint="add --temporal HOST:PORT")
    if not ledger:
        raise UsageProblem(
            "--engine temporal needs a ledger that the workers reach too", hint="add --ledger postgresql://user@host/database"
        )
    return RunBackend(ledger=ledger, store=store, temporal=server)


def server_of(given: OptionValues) -> TemporalServer | None:
    """Remove the Temporal options and return the server; None without an address."""
    address = given.pop("temporal", None) or ""
    members = {member: given.pop(f"temporal_{member}", None) for member in (*_REST, "tls")}
    if not address:
        return None
    # An IPv6 address has colons of its own; only the last one is before the port.
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UsageProblem(f"--temporal '{address}' is not a server address", hint="it looks like temporal.example.org:7233")
    return TemporalServer(address=address, **{name: value for name, value in members.items() if value})
