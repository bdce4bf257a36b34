"""`assay fetch`: a finished run from an object store into the folder of runs."""

import click

from assay import api
from assay.surfaces.cli.run_options import OutputOptions, command_line, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Fetch a finished run from an object store: s3://BUCKET/PREFIX/RUN (also gs:// and az://), where `assay run --store` or
`assay publish` wrote it.

Its files are verified against the manifest before they appear in the folder of runs: hashes, sizes, the hash chain of the attempt
log and the Merkle root of the records. A changed run is refused; a run that is already here stays unchanged. Credentials, region
and endpoint come from the store's own environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
AWS_ENDPOINT_URL; AWS_ALLOW_HTTP=true for one without TLS). Needs the extra `s3`.
"""

EPILOG = """\b
Examples:
  assay fetch s3://evaluations/nightly/run_20261115_101500_ab12cd
  assay show run_20261115_101500_ab12cd

\b
Exit codes:
  0  the run is here
  2  could not run: no such run, it was changed, the store cannot be reached, or another run has that id here"""


@click.command("fetch", help=HELP, epilog=EPILOG)
@click.argument("address", metavar="ADDRESS")
@runs_dir_option
@json_option
def command(*, address: str, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    run = api.fetch(address, runs_dir=runs_dir)
    if is_json:
        write_json({"run_id": run.folders.run_id, "run_dir": str(run.folders.sealed)})
    else:
        show = command_line("show", run.folders.run_id, shown=OutputOptions(runs_dir=runs_dir))
        write_text([printable(f"{run.folders.sealed} holds every file of the run; look at it: {show}") + "\n"])
