"""Runs on a server: submit, follow and report them as local ones."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import click
import msgspec

from assay import api
from assay.core.errors import ServerProblem, UsageProblem
from assay.core.run_result import RunResult
from assay.core.stop_signals import raised_as_interrupt
from assay.core.summary import GateResult
from assay.core.text import printable
from assay.presentation.words import counted
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import OptionValues
from assay.surfaces.cli.progress import RunProgress
from assay.surfaces.cli.run_options import OutputOptions, conclude, write_json

KEY_VARIABLE = "ASSAY_KEY"

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class RemoteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Server and its connection, as given by the options."""

    server: str
    key_variable: str | None = None
    allow_http: bool = False

    def client(self) -> api.Client:
        """Create the client of that server; raises UsageProblem."""
        # Never an option: the arguments of a process are visible to every user of the machine.
        key = os.environ.get(self.key_variable or KEY_VARIABLE, "")
        # A variable that was named and is missing is a mistake; without a name the server may need no key.
        if self.key_variable and not key:
            raise UsageProblem(
                f"the variable '{self.key_variable}' is not set", hint="it holds the key; `assay keys add` makes one"
            )
        return api.Client(self.server, key, allow_http=self.allow_http)

    def command_line(self, *words: str) -> str:
        """Format a command for the same server."""
        variable = ["--key-variable", self.key_variable] if self.key_variable else []
        return shlex.join(["assay", *words, "--server", self.server, *variable, *(["--allow-http"] if self.allow_http else [])])


def server_options(command: Decorated) -> Decorated:
    """Add `--server URL` and the options of its connection."""
    options: tuple[Callable[[Decorated], Decorated], ...] = (
        click.option("--allow-http", is_flag=True, help="With --server: allow unencrypted HTTP."),
        click.option(
            "--key-variable", metavar="NAME", help=f"Variable that holds the API key of the server.  [default: {KEY_VARIABLE}]"
        ),
        click.option("--server", metavar="URL", help="Use the server at this address (assay serve)."),
    )
    # In this order the help lists them backwards, since each decorator goes before those that are there.
    for option in options:
        command = option(command)
    return command


def remote_of(given: OptionValues) -> RemoteOptions | None:
    """Remove the options of a server and return them; None without `--server`. Raises UsageProblem for options that need it."""
    server, variable, allow_http = given.pop("server"), given.pop("key_variable"), given.pop("allow_http")
    if server is not None:
        return RemoteOptions(server=server, key_variable=variable, allow_http=allow_http)
    for option, value in (("--key-variable", variable), ("--allow-http", allow_http)):
        if value:
            raise UsageProblem(f"{option} is for a server", hint="name one with --server URL")
    return None


class RemoteRunFollower(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a server, with the options for its local report."""

    remote: RemoteOptions
    client: api.Client
    shown: OutputOptions
    keeps: bool = True
    """True when the artifacts are saved in the folder of runs."""
    records: int | None = None
    """Number of evaluated records, if the response to the submission had it."""

    def to_end(self, run_id: str) -> int:
        """Follow a run to its end, bring its artifacts here, show it, and say how it went as an exit code."""
        last: list[api.RunStatus] = []
        try:
            # SIGTERM as well as Ctrl-C leaves the run, which continues on the server.
            with raised_as_interrupt():
                status = self._watched(run_id, last)
            if status.is_finished:
                return self._conclude(run_id)
        except KeyboardInterrupt:
            return self._left("interrupted", run_id, last, code=exits.INTERRUPTED)
        except ServerProblem as problem:
            exits.complain_of(problem)
            return self._left("the run was left", run_id, last, code=exits.COULD_NOT_RUN)
        return self._left(f"work on the run has stopped: {status.problem}", run_id, [status], code=exits.COULD_NOT_RUN)

    def _watched(self, run_id: str, last: list[api.RunStatus]) -> api.RunStatus:
        start = time.monotonic()
        with RunProgress(run_id, is_quiet=self.shown.is_quiet) as progress:

            def watch(status: api.RunStatus) -> None:
                is_first, last[:] = not last, [status]
                if is_first:
                    counts = status.counts
                    records = counts.total_records - counts.invalid_records if self.records is None else self.records
                    progress.announce(f"{counted(records, 'record')} · {status.model} · {self.client.url}")
                progress.watch(_snapshot(status, elapsed_s=time.monotonic() - start))

            return self.client.wait(run_id, watch=watch)

    def _conclude(self, run_id: str) -> int:
        if self.keeps:
            # Artifacts are verified against the manifest while they are downloaded.
            self.client.download(run_id, self.shown.runs_dir)
            return conclude([api.open_run(run_id, runs_dir=self.shown.runs_dir).result], self.shown)
        # Only for the report: nothing of the run stays here.
        with TemporaryDirectory(prefix="assay-") as folder:
            self.client.download(run_id, folder)
            shown = msgspec.structs.replace(self.shown, runs_dir=folder, place=self._place(run_id))
            return conclude([api.open_run(run_id, runs_dir=folder).result], shown)

    def _left(self, what: str, run_id: str, last: list[api.RunStatus], *, code: int) -> int:
        """Print the command that resumes a run which was not followed to its end."""
        if self.shown.is_json and last:
            # A script that reads --json gets a document also when the command stopped early.
            write_json(_result(last[0], self._place(run_id)).to_dict())
        goes_on = "" if last and last[0].is_stopped else "; the run continues on the server"
        follow, cancel = (self.remote.command_line(word, run_id) for word in ("resume", "cancel"))
        exits.print_error(f"{what}{goes_on}", hint=f"resume with: {follow} · cancel it with: {cancel}")
        return code

    def _place(self, run_id: str) -> str:
        return f"{self.client.url}/v1/runs/{run_id}"


def say_left_out(rejected: int, total: int) -> None:
    """Print the number of invalid records; the server evaluates the others."""
    if rejected:
        are = "is" if rejected == 1 else "are"
        click.echo(f"assay: {counted(rejected, 'invalid record')} {are} left out of {total:,}", err=True)


def _snapshot(status: api.RunStatus, *, elapsed_s: float) -> api.Snapshot:
    """Convert the state of a server's run to a snapshot."""
    counts = status.counts
    # The server counts invalid records among the failed ones.
    ended = {
        "evaluated": counts.evaluated_records,
        "evaluation_error": counts.failed_records - counts.invalid_records,
        "invalid_record": counts.invalid_records,
    }
    return api.Snapshot(
        # The last event repeats the progress at the end; the report names the state.
        state="running" if status.is_finished else status.state,
        total=counts.total_records,
        done=status.done_records,
        by_status=ended,
        errors={},
        calls=0,
        in_flight=0,
        waiting=0,
        cost=0.0,
        unknown_costs=0,
        p50_ms=None,
        p95_ms=None,
        elapsed_s=elapsed_s,
        knows_calls=False,
    )


def _result(status: api.RunStatus, place: str) -> RunResult:
    """Convert the state of an unfinished run of a server to a result, for `--json`."""
    return RunResult(
        run_id=status.run_id,
        state=status.state,
        run_dir=place,
        counts=status.counts,
        metrics=status.metrics or {},
        gate=status.gate or GateResult(False, ("the run has not ended",)),
        candidate=status.model,
    )


def cancel_there(remote: RemoteOptions, run_id: str) -> RunResult:
    """End a run of a server for good."""
    client = remote.client()
    return _result(client.cancel(run_id), f"{client.url}/v1/runs/{printable(run_id)}")


def resume_there(remote: RemoteOptions, run_id: str, *, shown: OutputOptions) -> int:
    """Resume a run of a server, follow it to its end, and return the exit code."""
    client = remote.client()
    status = client.run(run_id)
    # A run that a process works on, or that has ended, is only followed.
    if status.is_stopped and not status.is_finished:
        client.resume(run_id)
    return RemoteRunFollower(remote=remote, client=client, shown=shown).to_end(run_id)
