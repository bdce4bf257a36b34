"""`assay serve`: the batch evaluation service over HTTP."""

from pathlib import Path

import click
import msgspec

from assay.core.errors import MissingExtra
from assay.surfaces.cli import exits
from assay.surfaces.cli.numbers import Port
from assay.surfaces.cli.placement import engine_option, ledger_option, placement_of, store_option, temporal_options
from assay.surfaces.cli.run_options import runs_dir_option
from assay.surfaces.cli.telemetry import open_observers, telemetry_of, telemetry_options
from assay.surfaces.printable import printable

HELP = """Start the HTTP service of batch_v1 and the web pages: submit datasets, run them, and read the results.

Open the printed address to see all runs of the folder; /docs lists the HTTP endpoints. Without an API key only this machine can
connect; to listen on another address, create one with `assay keys`. An accepted run is never lost: a run that is unfinished when
the server stops continues at its next start. With --ledger several servers share their runs: each serves all of them, and another
takes over the runs of a server that stops. With --engine temporal, workers on other machines evaluate the records (assay worker).
"""

EPILOG = """\b
Examples:
  assay serve
  assay serve --port 9000 --runs-dir /srv/runs --config server.yaml
  assay serve --ledger postgresql://assay@db.example.org/assay --store s3://bucket/runs
  assay serve --ledger postgresql://assay@db.example.org/assay --engine temporal --temporal temporal.example.org:7233
  assay keys add ci --scope write && assay serve --host 0.0.0.0
  curl -H 'Content-Type: application/json' --data-binary @data.json 'http://127.0.0.1:8321/v1/runs?model=openai/gpt-5-mini'

\b
Exit codes:
  0  stopped by a signal
  2  could not run: no key for this address, a busy port, wrong settings"""


@click.command("serve", help=HELP, epilog=EPILOG)
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
def command(context: click.Context, /, host: str, port: int, *, runs_dir: str, config: str, **given: object) -> None:
    """Entry of the command; see HELP."""
    try:
        from assay.surfaces.server.app import ServeOptions, serve  # noqa: PLC0415  # an extra: only this command needs it
        from assay.surfaces.server.settings import read_server_settings  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as problem:
        raise MissingExtra(f"the service needs {problem.name}", hint="pip install 'assay[server]'") from problem
    placement = placement_of(given)
    telemetry, settings = telemetry_of(given), read_server_settings(config)
    if telemetry.log_format is not None:
        settings = msgspec.structs.replace(settings, log_requests=True)
    with open_observers(telemetry) as tellers:
        listening = ServeOptions(
            runs_dir=Path(runs_dir), settings=settings, host=host, port=port, placement=placement, teller=tellers
        )
        serve(listening, lambda text: click.echo(printable(text), err=True))
    context.exit(exits.VALID)
