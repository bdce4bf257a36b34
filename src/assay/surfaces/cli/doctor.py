"""`assay doctor`: what is there, what is missing, and what must be mended before a run."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.reporters.installation import doctor_text

HELP = """Check the installation: versions, extras, API keys, the folder of the runs, proxies, providers and the terminal.

The command requests the model list of every provider that has an API key, and of those in RUNFILE, which costs nothing. Of an API
key it shows only the name of the variable.
"""

EPILOG = """\b
Examples:
  assay doctor
  assay doctor nightly.yaml
  assay doctor --offline --json

\b
Exit codes:
  0  no problems found
  1  something needs fixing; each line states what to do
  2  could not run"""


@click.command("doctor", help=HELP, epilog=EPILOG)
@click.argument("run_file", metavar="[RUNFILE]", required=False, default="")
@click.option("--offline", is_flag=True, help="Call no provider.")
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, run_file: str, *, offline: bool, runs_dir: str, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    checks = [*api.examine_place(runs_dir, run_file=run_file, is_offline=offline), *_terminal()]
    is_well = not any(check.standing == "problem" for check in checks)
    if is_json:
        write_json({"is_well": is_well, "checks": [_document(check) for check in checks]})
    else:
        write_text(doctor_text(checks, text_settings()))
    context.exit(exits.VALID if is_well else exits.INVALID)


def _document(check: api.DoctorCheck) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(check).items() if value or name != "hint"}


def _terminal() -> Iterator[api.DoctorCheck]:
    settings = text_settings()
    is_terminal = settings.width is not None
    colours = "with colours" if settings.is_coloured else "without colours" if is_terminal else ""
    shown = f"{settings.width} columns, {colours}" if is_terminal else "standard output is no terminal: plain text"
    yield api.DoctorCheck(area="terminal", name="output", says=shown)
    encoding = (sys.stdout.encoding or "").lower().replace("-", "") if sys.stdout is not None else ""
    if encoding == "utf8":
        yield api.DoctorCheck(area="terminal", name="encoding", says="UTF-8")
    else:
        hint = "set LANG to a UTF-8 one, or PYTHONUTF8=1"
        yield api.DoctorCheck(area="terminal", name="encoding", standing="note", says=encoding or "none", hint=hint)
    yield _browser()


def _browser() -> api.DoctorCheck:
    try:
        name = webbrowser.get().name if not os.environ.get("SSH_CONNECTION") else ""
    except webbrowser.Error:
        name = ""
    hint = "assay serve prints its address; assay report writes a file to open elsewhere"
    return api.DoctorCheck(area="terminal", name="browser", says=name) if name else _no_browser(hint)


def _no_browser(hint: str) -> api.DoctorCheck:
    return api.DoctorCheck(area="terminal", name="browser", standing="note", says="none here", hint=hint)
