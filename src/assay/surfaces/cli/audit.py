"""`assay audit`: every decision about the runs of a folder."""

from typing import Any

import click

from assay import api
from assay.presentation.sections import Column
from assay.presentation.words import gate_word
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, runs_dir_option, say_empty, text_settings, write_json, write_text
from assay.surfaces.printable import printable
from assay.surfaces.reporters.terminal import painter, table

HELP = """Show the audit log of a folder of runs, the oldest entry first: baselines, gates and suites, and what clients of a server
submitted, cancelled and resumed.

The log is a separate file next to the runs. Each line has the hash of the line before it, so that a changed, deleted or moved line
is detected.
"""

EPILOG = """\b
Examples:
  assay audit
  assay audit --json

\b
Exit codes:
  0  listed
  2  could not run: the log was changed after it was written"""


@click.command("audit", help=HELP, epilog=EPILOG)
@runs_dir_option
@json_option
@click.pass_context
def command(context: click.Context, /, runs_dir: str, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    entries = api.audit(runs_dir)
    if is_json:
        write_json({"entries": entries})
    else:
        settings = text_settings()
        if not entries:
            write_text(["0 decisions\n"])
            say_empty(runs_dir, "assay gate, assay suite, assay baseline set and assay serve write here")
            context.exit(exits.VALID)
        columns = [Column(title) for title in ("at", "by", "action", "run", "what")]
        rows = [[printable(text, limit=120) for text in _cells(entry)] for entry in entries]
        write_text(table(columns, rows, paint=painter(is_coloured=settings.is_coloured), width=settings.width))
    context.exit(exits.VALID)


def _cells(entry: dict[str, Any]) -> tuple[str, ...]:
    action = entry["action"]
    if action == "baseline_set":
        what = f"baseline '{entry['name']}'" + (f": {entry['reason']}" if entry["reason"] else "")
    elif action == "gate":
        reasons = "; ".join(finding["reason"] for finding in entry.get("reasons", ()))
        what = f"{gate_word(passed=entry['passed'])}: {reasons}"
    elif action == "suite":
        what = f"{gate_word(passed=entry['passed'])}: {', '.join(entry['runs'])}"
    elif action == "run_submitted":
        what = f"at the server, dataset {entry['dataset_sha256'][:12]}"
    elif action == "mlflow_pushed":
        what = f"to {entry['uri']}, run {entry['mlflow_run_id']}"
    elif action in ("run_cancelled", "run_resumed"):
        what = "at the server"
    else:
        what = entry.get("reason") or entry.get("key", "")
    return (entry["at"], entry.get("by", ""), action.replace("_", " "), entry.get("run_id", ""), what)
