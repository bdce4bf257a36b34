"""Commands as a terminal gives them, in this process and in the working folder of a test."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from assay.surfaces.cli.program import program
from assay.testing import example_dataset


def assay(*words: str | Path, stdin: str | bytes | None = None, **environ: str) -> Result:
    """What a command printed, and its exit code."""
    return CliRunner().invoke(program, [str(word) for word in words], input=stdin, prog_name="assay", env=environ)


def write_broken_batch() -> None:
    """`batch.json` in the working folder: five records, the second of which breaks the contract."""
    batch = json.loads(example_dataset("batch_v1"))
    batch["records"][1]["input"] = {}
    Path("batch.json").write_text(json.dumps(batch), encoding="utf-8")


def document(result: Result) -> Any:
    """What a command printed for programs."""
    return json.loads(result.stdout)
