"""Telemetry options: OpenTelemetry, logs in JSON and metrics of the runs that a command executes; off by default."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
import msgspec

from assay.core.errors import AssayError, MissingExtra, UsageProblem
from assay.core.integrations import load_integration
from assay.surfaces.cli.exits import print_error
from assay.surfaces.cli.options import OptionValues, WordChoice
from assay.surfaces.cli.streams import check_writable, encoded, write_file
from assay.surfaces.observers import ObserverGroup, RunObserver

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class TelemetryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Telemetry that the options ask for."""

    otel: bool = False
    otel_content: bool = False
    log_format: str | None = None
    log_file: str | None = None
    metrics_file: str | None = None

    @property
    def fills_standard_error(self) -> bool:
        """True when lines of JSON replace the progress on standard error."""
        return self.log_format is not None and self.log_file is None


def telemetry_options(command: Decorated) -> Decorated:
    """Add `--otel`, `--log-format` and their options, for commands that execute runs."""
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option("--log-file", metavar="FILE", help="Append the lines of --log-format to FILE instead of standard error."),
        click.option(
            "--log-format",
            type=WordChoice(["json"]),
            envvar="ASSAY_LOG",
            help="Log a line for each record, failed call and run.",
        ),
        click.option("--otel-content", is_flag=True, help="With --otel: send prompts, answers and explanations too, redacted."),
        click.option(
            "--otel",
            is_flag=True,
            envvar="ASSAY_OTEL",
            help="Send OpenTelemetry traces and metrics; OTEL_* variables set the destination.",
        ),
    )
    for option in options:
        command = option(command)
    return command


def metrics_file_option(command: Decorated) -> Decorated:
    """Add `--metrics-file FILE`, for commands that end; a server has /metrics instead."""
    option: Callable[[Decorated], Decorated] = click.option(
        "--metrics-file", metavar="FILE", help="Write metrics for Prometheus (a .prom file for node_exporter)."
    )
    return option(command)


def check_local(
    telemetry: TelemetryOptions, other: str = "--server", *, who: str = "a server reports its runs: assay serve"
) -> None:
    """Raise UsageProblem when the command line, not only the environment, asks for telemetry that another process sends."""
    asked = {
        # From the environment the setting is for what runs here, and a run elsewhere simply does not use it.
        "--otel": telemetry.otel and not os.environ.get("ASSAY_OTEL"),
        "--log-format": telemetry.log_format is not None and not os.environ.get("ASSAY_LOG"),
        "--log-file": telemetry.log_file is not None,
        "--metrics-file": telemetry.metrics_file is not None,
    }
    for option in (option for option, is_asked in asked.items() if is_asked):
        raise UsageProblem(f"{option} cannot be used with {other}", hint=f"{who} --help")


def telemetry_of(given: OptionValues) -> TelemetryOptions:
    """Remove the telemetry options and return them; raises UsageProblem for contradictions."""
    # Popped, since the rest is converted to the options of the command.
    telemetry = msgspec.convert({name: given.pop(name, None) for name in TelemetryOptions.__struct_fields__}, TelemetryOptions)
    if telemetry.otel_content and not telemetry.otel:
        raise UsageProblem("--otel-content needs --otel", hint="add --otel")
    if telemetry.log_file is not None and telemetry.log_format is None:
        raise UsageProblem("--log-file needs --log-format", hint="add --log-format json")
    # Before the run: the file is written at its end.
    if telemetry.metrics_file is not None:
        check_writable(telemetry.metrics_file, option="--metrics-file")
    return telemetry


@contextmanager
def open_observers(telemetry: TelemetryOptions) -> Iterator[ObserverGroup]:
    """Open the observers for the block; at its end print what they could not deliver."""
    observers: list[RunObserver] = []
    ends: list[Callable[[], list[str]]] = []
    for wanted, begin in ((telemetry.otel, _otel), (telemetry.log_format, _log), (telemetry.metrics_file, _figures)):
        if wanted:
            observer, end = begin(telemetry)
            observers.append(observer)
            ends.append(end)
    # At its end a run reports through its result; an error has no result.
    try:
        yield ObserverGroup(observers)
    except AssayError as problem:
        for observer in observers:
            # Optional in the protocol: only the log has a line for a failed run.
            if hasattr(observer, "run_failed"):
                observer.run_failed(problem)
        raise
    finally:
        for line in [line for end in ends for line in end()]:
            print_error(line)


def _otel(telemetry: TelemetryOptions) -> tuple[RunObserver, Callable[[], list[str]]]:
    try:
        otel = load_integration("telemetry", "otel", user="--otel").Otel(wants_texts=telemetry.otel_content)
    except ImportError as problem:
        # One that is there may be too old, or broken.
        raise MissingExtra(f"--otel needs opentelemetry: {problem}", hint="pip install 'assay[otel]'") from problem
    return otel, otel.close


def _log(telemetry: TelemetryOptions) -> tuple[RunObserver, Callable[[], list[str]]]:
    lines = load_integration("telemetry", "json_log", user="--log-format")
    destination = lines.log_to(telemetry.log_file)
    return lines.RunLog(), lambda: lines.stop_logging(destination)


def _figures(telemetry: TelemetryOptions) -> tuple[RunObserver, Callable[[], list[str]]]:
    figures = load_integration("telemetry", "prometheus", user="--metrics-file").PrometheusMetrics()
    path = telemetry.metrics_file or ""

    def end() -> list[str]:
        try:
            # In one piece: node_exporter may read at any moment.
            write_file(path, encoded([figures.text()]))
        except OSError as problem:
            return [f"--metrics-file '{path}' could not be written: {(problem.strerror or str(problem)).lower()}"]
        return []

    return figures, end
