"""What a command tells other tools while it works on runs: traces, lines of JSON, figures; nothing unless it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import click
import msgspec

from assay.core.errors import AssayError, MissingExtra, UsageProblem
from assay.surfaces.cli.exits import complain
from assay.surfaces.cli.streams import check_writable, encoded, write_file
from assay.surfaces.telemetry.tellers import Teller, Tellers

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for."""

    otel: bool = False
    otel_content: bool = False
    log_format: str | None = None
    log_file: str | None = None
    metrics_file: str | None = None

    @property
    def fills_standard_error(self) -> bool:
        """Lines of JSON go where the progress would."""
        return self.log_format is not None and self.log_file is None


def telemetry_options(command: Decorated) -> Decorated:
    """`--otel`, `--log-format` and what belongs to them, the same for every command that works on runs."""
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option("--log-file", metavar="FILE", help="Append the lines of --log-format to FILE instead of standard error."),
        click.option(
            "--log-format",
            type=click.Choice(["json"]),
            envvar="ASSAY_LOG",
            help="Log a line for each record, failed call and run.",
        ),
        click.option("--otel-content", is_flag=True, help="With --otel: send prompts, answers and explanations too, redacted."),
        click.option(
            "--otel", is_flag=True, envvar="ASSAY_OTEL", help="Send OpenTelemetry traces and metrics; OTEL_* variables say where."
        ),
    )
    for option in options:
        command = option(command)
    return command


def metrics_file_option(command: Decorated) -> Decorated:
    """`--metrics-file FILE`, for commands that end; a server has an address for its figures."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--metrics-file", metavar="FILE", help="Write figures for Prometheus (a .prom file for node_exporter)."
    )
    return option(command)


def check_local(telemetry: Telemetry, elsewhere: str = "--server", *, who: str = "a server tells of its runs: assay serve") -> None:
    """Raises UsageProblem when the command line, and not only the environment, asks for what is told elsewhere."""
    asked = {
        "--otel": telemetry.otel and not os.environ.get("ASSAY_OTEL"),
        "--log-format": telemetry.log_format is not None and not os.environ.get("ASSAY_LOG"),
        "--log-file": telemetry.log_file is not None,
        "--metrics-file": telemetry.metrics_file is not None,
    }
    for option in (option for option, is_asked in asked.items() if is_asked):
        raise UsageProblem(f"{option} cannot be used with {elsewhere}", hint=f"{who} --help")


def telemetry_of(given: dict[str, Any]) -> Telemetry:
    """What options ask for, taken out of them; raises UsageProblem for what does not fit together."""
    telemetry = msgspec.convert({name: given.pop(name, None) for name in Telemetry.__struct_fields__}, Telemetry)
    if telemetry.otel_content and not telemetry.otel:
        raise UsageProblem("--otel-content says what --otel sends", hint="add --otel")
    if telemetry.log_file is not None and telemetry.log_format is None:
        raise UsageProblem("--log-file needs --log-format", hint="add --log-format json")
    if telemetry.metrics_file is not None:
        check_writable(telemetry.metrics_file, option="--metrics-file")
    return telemetry


@contextmanager
def telling(telemetry: Telemetry) -> Iterator[Tellers]:
    """Those who are told, for as long as a command works; what could not be told is said at its end."""
    tellers: list[Teller] = []
    ends: list[Callable[[], list[str]]] = []
    for wanted, begin in ((telemetry.otel, _otel), (telemetry.log_format, _log), (telemetry.metrics_file, _figures)):
        if wanted:
            teller, end = begin(telemetry)
            tellers.append(teller)
            ends.append(end)
    try:
        yield Tellers(tellers)
    except AssayError as problem:
        for teller in tellers:
            if hasattr(teller, "run_failed"):
                teller.run_failed(problem)
        raise
    finally:
        for line in [line for end in ends for line in end()]:
            complain(line)


def _otel(telemetry: Telemetry) -> tuple[Teller, Callable[[], list[str]]]:
    try:
        otel = import_module("assay.surfaces.telemetry.otel").Otel(wants_texts=telemetry.otel_content)
    except ImportError as problem:
        # One that is there may be too old, or broken.
        raise MissingExtra(f"--otel needs opentelemetry: {problem}", hint="pip install 'assay[otel]'") from problem
    return otel, otel.close


def _log(telemetry: Telemetry) -> tuple[Teller, Callable[[], list[str]]]:
    lines = import_module("assay.surfaces.telemetry.json_log")
    destination = lines.log_to(telemetry.log_file)
    return lines.RunLog(), lambda: lines.stop_logging(destination)


def _figures(telemetry: Telemetry) -> tuple[Teller, Callable[[], list[str]]]:
    figures = import_module("assay.surfaces.telemetry.figures").Figures()
    path = telemetry.metrics_file or ""

    def end() -> list[str]:
        try:
            # In one piece: node_exporter may read at any moment.
            write_file(path, encoded([figures.text()]))
        except OSError as problem:
            return [f"--metrics-file '{path}' could not be written: {(problem.strerror or str(problem)).lower()}"]
        return []

    return figures, end
