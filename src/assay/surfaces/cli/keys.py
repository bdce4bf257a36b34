"""`assay keys`: who may use the service, and for what."""

from pathlib import Path

import click
import msgspec

from assay import api
from assay.core.plan import DEFAULT_PROJECT
from assay.presentation.sections import Column
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, runs_dir_option, text_settings, write_json, write_text
from assay.surfaces.cli.words import WordChoice
from assay.surfaces.printable import printable
from assay.surfaces.reporters.terminal import painter, table
from assay.surfaces.server.keys import SCOPES, Keys, Scope

HELP = """Create, list and revoke the API keys of the service for a folder of runs.

An API key is shown once, when it is created; only its hash is stored. `read` may view runs, `write` may also submit, cancel and
resume them, `admin` may also read the audit log. An API key gives access to the runs of its project, an admin key to those of all
projects. After the first API key is created, every request needs one, even when all are revoked.
"""

EPILOG = """\b
Examples:
  assay keys add ci --scope write
  assay keys add legal-ci --scope write --project legal
  assay keys list
  assay keys revoke ci

\b
Exit codes:
  0  done
  2  could not run: the name exists already, or does not exist"""


@click.group("keys", help=HELP, epilog=EPILOG)
def command() -> None:
    """Entry of the command; see HELP."""


@command.command("add", help="Create an API key and show it once.")
@click.argument("name")
@click.option("--scope", type=WordChoice(SCOPES), default="read", show_default=True, help="Permissions of the key.")
@click.option(
    "--project", default=DEFAULT_PROJECT, show_default=True, metavar="NAME", help="Project whose runs the key gives access to."
)
@runs_dir_option
@json_option
@click.pass_context
def add(context: click.Context, /, name: str, scope: Scope, *, project: str, runs_dir: str, is_json: bool) -> None:
    """A new key."""
    key = Keys(Path(runs_dir)).add(name, scope, project=project)
    api.note_audit(Path(runs_dir), "key_added", {"key": name, "scope": scope, "project": project})
    if is_json:
        write_json({"name": name, "scope": scope, "project": project, "key": key})
    else:
        write_text([f"{key}\n"])
        shown = f"assay: '{printable(name)}' may {scope} in the project '{project}'; keep the key, it is not shown again"
        click.echo(shown, err=True)
    context.exit(exits.VALID)


@command.command("list", help="List the API keys by name, without the secrets.")
@runs_dir_option
@json_option
@click.pass_context
def list_keys(context: click.Context, /, runs_dir: str, *, is_json: bool) -> None:
    """All keys."""
    entries = Keys(Path(runs_dir)).entries()
    if is_json:
        shown = [{name: value for name, value in msgspec.to_builtins(entry).items() if name != "sha256"} for entry in entries]
        write_json({"keys": shown})
    else:
        settings = text_settings()
        rows = [(printable(entry.name), entry.scope, entry.project, f"{entry.hint}…", entry.created_at) for entry in entries]
        columns = [Column(title) for title in ("name", "scope", "project", "key", "made")]
        write_text(table(columns, rows, paint=painter(is_coloured=settings.is_coloured), width=settings.width))
    context.exit(exits.VALID)


@command.command("revoke", help="Revoke an API key; requests with it are refused from now on.")
@click.argument("name")
@runs_dir_option
@click.pass_context
def revoke(context: click.Context, /, name: str, runs_dir: str) -> None:
    """One key less."""
    Keys(Path(runs_dir)).revoke(name)
    api.note_audit(Path(runs_dir), "key_revoked", {"key": name})
    write_text([f"the key '{printable(name)}' is revoked\n"])
    context.exit(exits.VALID)
