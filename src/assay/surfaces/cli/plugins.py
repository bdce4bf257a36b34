"""`assay plugins`: what installed packages add, and whether it can be used."""

import click
import msgspec

from assay import api
from assay.surfaces.cli import exits
from assay.surfaces.cli.run_options import json_option, text_settings, write_json, write_text
from assay.surfaces.reporters.installation import plugins_text

HELP = """List the graders, models, policies, converters and contracts that installed packages add.

A package declares them in its entry points: assay.graders, assay.models, assay.policies, assay.converters, assay.contracts. The
command loads each plugin and reports the reason if it cannot be used; the others still work. Custom code needs no package: every
option that takes a plugin also takes module:function and file.py:function.
"""

EPILOG = """\b
Examples:
  assay plugins
  assay plugins --json
  assay run questions.jsonl --model openai/gpt-5-mini --grader PLUGIN

\b
Exit codes:
  0  listed, and every plugin can be used
  1  a plugin cannot be used
  2  could not run: bad usage"""


@click.command("plugins", help=HELP, epilog=EPILOG)
@json_option
@click.pass_context
def command(context: click.Context, /, *, is_json: bool) -> None:
    """Entry of the command; see HELP."""
    listed = api.list_plugins()
    if is_json:
        write_json({"plugins": msgspec.to_builtins(listed)})
    else:
        write_text(plugins_text(listed, text_settings()))
    context.exit(exits.INVALID if any(plugin.problem for plugin in listed) else exits.VALID)
