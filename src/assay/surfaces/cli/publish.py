"""`assay publish`: a finished run in an object store, written once."""

import click

from assay import api
from assay.surfaces.cli.run_options import RUN, json_option, runs_dir_option, write_json, write_text
from assay.surfaces.printable import printable

HELP = """Write the files of a finished run to an object store: s3://BUCKET/PREFIX (also gs:// and az://).

They go to PREFIX/RUN-ID. An existing object is never overwritten (`If-None-Match`), and the manifest is written last, so that
readers never see an incomplete run. You can safely repeat the command. The run stays on this machine. Credentials, region and
endpoint come from the store's own environment variables (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL;
AWS_ALLOW_HTTP=true for one without TLS). Needs the extra `s3`.
"""

EPILOG = """\b
Examples:
  assay publish latest s3://evaluations/nightly
  assay verify s3://evaluations/nightly/run_20261115_101500_ab12cd

\b
Exit codes:
  0  every file is there
  2  could not run: no such run, the store cannot be reached, or another run is there"""


@click.command("publish", help=HELP, epilog=EPILOG)
@RUN
@click.argument("address", metavar="ADDRESS")
@runs_dir_option
@json_option
def command(*, run: str, address: str, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    place = api.publish(run, address, runs_dir=runs_dir)
    if is_json:
        write_json({"run": run, "address": place})
    else:
        write_text([printable(f"{place} holds every file of the run; see whether it stays so: assay verify {place}") + "\n"])
