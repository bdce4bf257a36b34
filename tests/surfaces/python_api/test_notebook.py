"""A real notebook with a real kernel: the example, and what a cell shows while a run is under way."""

import shutil
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

import assay

EXAMPLES = Path(__file__).parents[3] / "examples"
Outputs = list[dict[str, Any]]

MORE = (
    'options = {"model": "scripted/slow-700", "judge": "scripted/judge-5", "runs_dir": "demo-runs"}',
    'quiet = assay.run("golden_v1/assistant.json", progress=False, **options)',
    'watched = assay.run("golden_v1/assistant.json", **options)',
    '(await assay.run_async("golden_v1/assistant.json", **options))[0].state',
)
"""Cells after those of the example."""


class Watching(nbclient.NotebookClient):
    """A client that remembers every drawing of a cell, not only the last."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.drawn: list[str] = []

    def process_message(self, message: dict[str, Any], *rest: Any) -> Any:
        found = message["content"].get("data", {}) if "display" in message["msg_type"] else {}
        self.drawn += [found["text/html"]] if "text/html" in found else []
        return super().process_message(message, *rest)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Watching:
    folder = tmp_path_factory.mktemp("notebook") / "examples"
    shutil.copytree(EXAMPLES, folder)
    notebook = nbformat.read(folder / "notebook.ipynb", as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(cell) for cell in MORE]
    client = Watching(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    return client


def outputs(client: Watching, number: int, kind: str = "text/html") -> list[str]:
    """What the code cell of that number shows in the end."""
    cells = [cell for cell in client.nb.cells if cell.cell_type == "code"]
    return [output["data"][kind] for output in cells[number].outputs if kind in output.get("data", {})]


def test_the_runs_of_one_call_stand_beside_each_other_below_one_line_on_how_they_went(shown: Watching) -> None:
    progress, card = outputs(shown, 0)
    assert "two-candidates.yaml · 6/6 records · 100 %" in progress
    assert "Pass rate by candidate" in card


def test_a_run_shows_itself_as_a_card(shown: Watching) -> None:
    assert "MISSED</span> pass rate 16.7 % is below 80.0 %" in outputs(shown, 1)[0]
    assert outputs(shown, 1, "text/plain") == ["<assay.Run notebook-hasty · completed · hasty · pass rate 16.7 % [3.0 %, 56.4 %]>"]


def test_a_comparison_shows_itself_as_a_card(shown: Watching) -> None:
    assert "UNDECIDED</span> no significant difference in pass rate" in outputs(shown, 2)[0]


def test_records_are_a_table_and_figures_are_numbers(shown: Watching) -> None:
    assert "unit-conversion" in outputs(shown, 3)[0]
    assert outputs(shown, 4, "text/plain") == ["('WARNING', 0.43649717781352987)"]


def test_a_cell_may_wait_for_a_run(shown: Watching) -> None:
    assert outputs(shown, 8, "text/plain") == ["'completed'"]


def test_an_interrupted_cell_leaves_a_run_that_can_go_on(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "golden_v1", tmp_path / "golden_v1")
    manager, kernel = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))
    try:
        kernel.execute(
            "import assay\n"
            "assay.run('golden_v1/assistant.json', model='scripted/slow-2000',"
            "judge='scripted/judge-5', run_id='cut', concurrency=1)"
        )
        said_until(kernel, "update_display_data")
        manager.interrupt_kernel()
        said = said_until(kernel, "error")
    finally:
        manager.shutdown_kernel(now=True)
        kernel.stop_channels()
    assert "progress is saved" in said[-2]["data"]["text/plain"]
    assert said[-1]["ename"] == "KeyboardInterrupt"
    assert assay.open_run("cut", runs_dir=tmp_path / "runs").state == "running"


def said_until(kernel: BlockingKernelClient, kind: str) -> Outputs:
    """What the kernel says until it says something of a kind."""
    said: Outputs = []
    while not said or said[-1]["kind"] != kind:
        message = kernel.get_iopub_msg(timeout=60)
        said.append({**message["content"], "kind": message["msg_type"]})
    return said


def test_no_progress_is_shown_where_none_is_wanted(shown: Watching) -> None:
    assert outputs(shown, 6) == []


def test_a_bar_moves_while_a_run_is_under_way_and_is_gone_at_the_end(shown: Watching) -> None:
    bars = [html for html in shown.drawn if "assistant.json" in html and "<progress" in html]
    assert len(bars) > 1
    assert "<progress" not in outputs(shown, 7)[0]
