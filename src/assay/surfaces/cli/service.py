"""`assay serve`, `keys`, `worker`: the HTTP service, its keys, and workers."""

from pathlib import Path
from typing import Any

import click
import msgspec

from assay import api
from assay.core.errors import MissingExtra, UsageProblem
from assay.core.plan import DEFAULT_PROJECT
from assay.core.runs import RunBackend
from assay.core.text import printable
from assay.presentation.sections import Column
from assay.surfaces.cli import exits
from assay.surfaces.cli.options import (
    Port,
    WordChoice,
    engine_option,
    ledger_option,
    placement_of,
    server_of,
    store_option,
    temporal_options,
)
from assay.surfaces.cli.run_options import json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.cli.telemetry import open_observers, telemetry_of, telemetry_options
from assay.surfaces.reporters.terminal import painter, table
from assay.surfaces.server.keys import SCOPES, KeyStore, Scope

SERVE_HELP = """Start the HTTP service of batch_v1 and the web pages: submit datasets, run them, and read the results.

Open the printed address to see all runs of the folder; /docs lists the HTTP endpoints. Without an API key only this machine can
connect; to listen on another address, create one with `assay keys`. An accepted run is never lost: a run that is unfinished when
the server stops continues at its next start. With --ledger several servers share their runs: each serves all of them, and another
takes over the runs of a server that stops. With --engine temporal, workers on other machines evaluate the records (assay worker).
"""

SERVE_EPILOG = """\b
Examples:
  assay serve
  assay serve --port 9000 --runs-dir /srv/runs --config server.yaml
  assay serve --ledger postgresql://assay@db.example.org/assay --store s3://bucket/runs
  assay serve --ledger postgresql://assay@db.example.org/assay --engine temporal --temporal temporal.example.org:7233
  assay keys add ci --scope write && assay serve --host 0.0.0.0
  curl -H 'Content-Type: application/json' --data-binary @data.json 'http://127.0.0.1:8321/v1/runs?model=openai/gpt-6-luna'

\b
Exit codes:
  0  stopped by a signal
  2  could not run: no key for this address, a busy port, wrong settings"""


@click.command("serve", help=SERVE_HELP, epilog=SERVE_EPILOG)
@click.option(
    "--host", default="127.0.0.1", show_default=True, envvar="ASSAY_HOST", metavar="ADDRESS", help="Address to listen on."
)
@click.option("--port", type=Port(), default=8321, show_default=True, envvar="ASSAY_PORT", help="Port to listen on.")
@runs_dir_option
@click.option("--config", default="", envvar="ASSAY_SERVER_CONFIG", metavar="FILE", help="Settings of the service, in YAML.")
@ledger_option("Share runs with other servers in PostgreSQL: postgresql://user@host/database.  [default: a file for each run]")
@store_option
@engine_option
@temporal_options(is_short=True)
@telemetry_options
@click.pass_context
def serve_command(context: click.Context, /, host: str, port: int, *, runs_dir: str, config: str, **given: object) -> None:
    """Entry of the command; see HELP."""
    # Both modules import litestar, which is an extra; the commands next to this one must work without it.
    try:
        from assay.surfaces.server.app import ServeOptions, serve  # noqa: PLC0415  # an extra: only this command needs it
        from assay.surfaces.server.settings import read_server_settings  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as problem:
        raise MissingExtra(f"the service needs {problem.name}", hint="pip install 'assay[server]'") from problem
    placement = placement_of(given)
    telemetry, settings = telemetry_of(given), read_server_settings(config)
    if telemetry.log_format is not None:
        settings = msgspec.structs.replace(settings, log_requests=True)
    with open_observers(telemetry) as observers:
        listening = ServeOptions(
            runs_dir=Path(runs_dir), settings=settings, host=host, port=port, placement=placement, observer=observers
        )
        # Lines for people go to standard error, where a service manager collects them.
        serve(listening, lambda text: click.echo(printable(text), err=True))
    context.exit(exits.VALID)


KEYS_HELP = """Create, list and revoke the API keys of the service for a folder of runs.

An API key is shown once, when it is created; only its hash is stored. `read` may view runs, `write` may also submit, cancel and
resume them, `admin` may also read the audit log. An API key gives access to the runs of its project, an admin key to those of all
projects. After the first API key is created, every request needs one, even when all are revoked.
"""

KEYS_EPILOG = """\b
Examples:
  assay keys add ci --scope write
  assay keys add legal-ci --scope write --project legal
  assay keys list
  assay keys revoke ci

\b
Exit codes:
  0  done
  2  could not run: the name exists already, or does not exist"""


@click.group("keys", help=KEYS_HELP, epilog=KEYS_EPILOG)
def keys_command() -> None:
    """Entry of the command; see HELP."""


@keys_command.command("add", help="Create an API key and show it once.")
@click.argument("name")
@click.option("--scope", type=WordChoice(SCOPES), default="read", show_default=True, help="Permissions of the key.")
@click.option(
    "--project", default=DEFAULT_PROJECT, show_default=True, metavar="NAME", help="Project whose runs the key gives access to."
)
@runs_dir_option
@json_option
@click.pass_context
def add(context: click.Context, /, name: str, scope: Scope, *, project: str, runs_dir: str, is_json: bool) -> None:
    """Add a key."""
    key = KeyStore(Path(runs_dir)).add(name, scope, project=project)
    # Into the audit log, because a key decides who can read the runs of a project.
    api.note_audit(Path(runs_dir), "key_added", {"key": name, "scope": scope, "project": project})
    if is_json:
        write_json({"name": name, "scope": scope, "project": project, "key": key})
    else:
        # The key alone on standard output, so that a script can take it from there.
        write_text([f"{key}\n"])
        shown = f"assay: '{printable(name)}' may {scope} in the project '{project}'; keep the key, it is not shown again"
        click.echo(shown, err=True)
    context.exit(exits.VALID)


@keys_command.command("list", help="List the API keys by name, without the secrets.")
@runs_dir_option
@json_option
@click.pass_context
def list_keys(context: click.Context, /, runs_dir: str, *, is_json: bool) -> None:
    """List all keys."""
    entries = KeyStore(Path(runs_dir)).entries()
    if is_json:
        shown = [{name: value for name, value in msgspec.to_builtins(entry).items() if name != "sha256"} for entry in entries]
        write_json({"keys": shown})
    else:
        settings = text_settings()
        rows = [(printable(entry.name), entry.scope, entry.project, f"{entry.hint}…", entry.created_at) for entry in entries]
        columns = [Column(title) for title in ("name", "scope", "project", "key", "made")]
        write_text(table(columns, rows, paint=painter(is_coloured=settings.is_coloured), width=settings.width))
    context.exit(exits.VALID)


@keys_command.command("revoke", help="Revoke an API key; requests with it are refused from now on.")
@click.argument("name")
@runs_dir_option
@click.pass_context
def revoke(context: click.Context, /, name: str, runs_dir: str) -> None:
    """Revoke a key."""
    KeyStore(Path(runs_dir)).revoke(name)
    api.note_audit(Path(runs_dir), "key_revoked", {"key": name})
    write_text([f"the key '{printable(name)}' is revoked\n"])
    context.exit(exits.VALID)


WORKER_HELP = """Evaluate records of runs started with `assay run --engine temporal`, until a signal stops the worker.

Start any number of workers on any number of machines. Each takes shards of 250 records from the Temporal server, calls the models
with the API keys of its environment, and writes the results to the ledger. If a worker dies, others take over its shards after 10
seconds; no result is lost or counted twice. SIGTERM waits for the calls in flight and returns the rest; a second one stops
immediately.

The worker that finishes a run publishes its artifacts in --runs-dir, which all workers and the machines that start runs must share,
or, with --store, in an object store, from which the others fetch them.
"""

WORKER_EPILOG = """\b
Examples:
  assay worker --temporal localhost:7233 --ledger postgresql://assay@localhost/assay
  assay worker --temporal temporal.example.org:7233 --ledger postgresql://assay@db/assay --runs-dir /srv/runs --shards 8
  assay worker --temporal eu.tmprl.cloud:7233 --temporal-namespace team.a1b2c --temporal-api-key-variable TEMPORAL_API_KEY
  ASSAY_TEMPORAL=localhost:7233 ASSAY_LEDGER=postgresql://assay@localhost/assay assay worker

\b
Exit codes:
  0    stopped by a signal, and what was in flight is recorded
  2    could not run: no answer at an address, wrong settings
  130  stopped immediately"""


@click.command("worker", help=WORKER_HELP, epilog=WORKER_EPILOG)
@temporal_options(is_short=False)
@ledger_option("PostgreSQL database of the runs: postgresql://user@host/database.")
@store_option
@runs_dir_option
@click.option(
    "--shards", type=click.IntRange(1, 1_000), default=4, metavar="N", show_default=True, help="Maximum shards in progress."
)
@click.option(
    "--versioned",
    is_flag=True,
    envvar="ASSAY_TEMPORAL_VERSIONED",
    help="Use Temporal's worker versioning: a run stays with workers of the assay version that started it.",
)
@telemetry_options
@click.pass_context
def worker_command(context: click.Context, /, ledger: str, runs_dir: str, *, shards: int, versioned: bool, **given: Any) -> None:
    """Entry of the command; see HELP."""
    store, server, telemetry = given.pop("store"), server_of(given), telemetry_of(given)
    if server is None:
        raise UsageProblem("a worker needs the address of a Temporal server", hint="add --temporal HOST:PORT")
    # Workers share runs by their ledger, and a file is of one machine.
    if not ledger:
        raise UsageProblem("a worker needs the ledger of the runs", hint="add --ledger postgresql://user@host/database")
    with open_observers(telemetry) as observers:
        api.work(
            RunBackend(ledger=ledger, store=store, temporal=server),
            runs_dir=runs_dir,
            shards=shards,
            is_versioned=versioned,
            observe=observers.observer,
            say=lambda line: click.echo(f"assay: {printable(line)}", err=True),
        )
    context.exit(exits.VALID)
