"""`assay worker`: evaluates the records of runs that were started elsewhere, until it is stopped."""

from typing import Any

import click

from assay import api
from assay.core.errors import UsageProblem
from assay.core.run_backend import RunBackend
from assay.surfaces.cli import exits
from assay.surfaces.cli.placement import ledger_option, server_of, store_option, temporal_options
from assay.surfaces.cli.run_options import runs_dir_option
from assay.surfaces.cli.telemetry import open_observers, telemetry_of, telemetry_options
from assay.surfaces.printable import printable

HELP = """Evaluate records of runs started with `assay run --engine temporal`, until a signal stops the worker.

Start any number of workers on any number of machines. Each takes shards of 250 records from the Temporal server, calls the models
with the API keys of its environment, and writes the results to the ledger. If a worker dies, others take over its shards after 10
seconds; no result is lost or counted twice. SIGTERM waits for the calls in flight and returns the rest; a second one stops
immediately.

The worker that finishes a run publishes its artifacts in --runs-dir, which all workers and the machines that start runs must share,
or, with --store, in an object store, from which the others fetch them.
"""

EPILOG = """\b
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


@click.command("worker", help=HELP, epilog=EPILOG)
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
def command(context: click.Context, /, ledger: str, runs_dir: str, *, shards: int, versioned: bool, **given: Any) -> None:
    """Entry of the command; see HELP."""
    store, server, telemetry = given.pop("store"), server_of(given), telemetry_of(given)
    if server is None:
        raise UsageProblem("a worker needs the address of a Temporal server", hint="add --temporal HOST:PORT")
    if not ledger:
        raise UsageProblem("a worker needs the ledger of the runs", hint="add --ledger postgresql://user@host/database")
    with open_observers(telemetry) as tellers:
        api.work(
            RunBackend(ledger=ledger, store=store, temporal=server),
            runs_dir=runs_dir,
            shards=shards,
            is_versioned=versioned,
            observe=tellers.observer,
            say=lambda line: click.echo(f"assay: {printable(line)}", err=True),
        )
    context.exit(exits.VALID)
