"""Runs whose candidate is asked in batches of a provider on loopback."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from assay import api
from assay.core.run_result import RunResult
from assay.engine.execution.run_context import RunEnvironment
from assay.engine.planning.request import RunRequest
from assay.engine.runs import start
from tests.engine.run_settings import mcq_row, planned, write_rows
from tests.models.batch_provider import BatchProvider

KINDS = ("openai", "openai_responses", "anthropic")
Json = dict[str, Any]


def write_run(folder: Path, provider: BatchProvider, *, kind: str = "openai", records: int = 6, **members: Any) -> Path:
    """A run file over questions whose right answer is A, with a provider that is looked at often."""
    write_rows(folder / "law.jsonl", *(mcq_row(f"q-{n}", prompt=f"Is it {n}?") for n in range(records)))
    batch = {"poll_seconds": 0.02, **members.pop("batch", {})}
    run_file = {
        "datasets": ["law.jsonl"],
        "candidates": ["shop/model-1"],
        "providers": [{"name": "shop", "kind": kind, "base_url": provider.base_url, "timeout": 20}],
        "retry": {"base_delay": 0.01, "max_delay": 1},
        "batch": batch,
        **members,
    }
    path = folder / "run.json"
    path.write_text(json.dumps(run_file))
    return path


def run(run_file: Path, **options: Any) -> RunResult:
    """The only run of a run file, in this process."""
    (result,) = api.run(run_file, run_id="x", runs_dir=str(run_file.parent / "runs"), **options)
    return result


def resumed(run_file: Path) -> RunResult:
    """The run, gone on with to its end."""
    return api.resume("x", runs_dir=run_file.parent / "runs")


def started(run_file: Path, *options: str, **environ: str) -> "subprocess.Popen[str]":
    """The run in a process of its own."""
    command = [sys.executable, "-m", "assay", "run", str(run_file), "--run-id", "x", "--runs-dir", str(run_file.parent / "runs")]
    return subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environ},
    )


def attempts(run_file: Path) -> list[Json]:
    """The attempt log of the finished run."""
    lines = (run_file.parent / "runs" / "x" / "attempt_logs.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def manifest(run_file: Path) -> Json:
    """The manifest of the finished run."""
    found: Json = json.loads((run_file.parent / "runs" / "x" / "run_manifest.json").read_text())
    return found


def ledger_rows(run_file: Path, query: str) -> list[Any]:
    """What a query finds in the ledger of the unfinished run."""
    ledger = run_file.parent / "runs" / ".active" / "x" / "ledger.sqlite"
    # Reading only: a look must not make the file.
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        return database.execute(query).fetchall()


def run_priced(folder: Path, provider: BatchProvider, **members: Any) -> RunResult:
    """A run with a model that has a listed price: the provider stands in for the vendor, as a proxy would."""
    providers = [{"name": "shop", "kind": "openai", "base_url": "http://shop.openai.azure.com/v1"}]
    candidate = {"model": "shop/gpt-4o", "max_tokens": members.pop("max_tokens", None)}
    run_file = write_run(folder, provider, candidates=[candidate], providers=providers, **members)
    environ = {"http_proxy": provider.base_url.removesuffix("/v1")}
    (plan,) = planned(RunRequest(run_file=str(run_file), run_id="x", runs_dir=str(folder / "runs")), **environ).plans
    return start(plan, folder / "runs", RunEnvironment(environ=environ))
