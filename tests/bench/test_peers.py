"""Other frameworks are measured beside assay: the quick form without them, limits, and the page that is made of results."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"
WRITE = """
import sys
from pathlib import Path
from peers_page import Kept, write_peers_page
kept, page, chart = map(Path, sys.argv[1:])
write_peers_page(Kept(kept).results, page=page, chart=chart)
"""
AFFORD = """
import sys
from pathlib import Path
from peers import affordable
from peers_page import Kept
kept = Kept(Path(sys.argv[1]))
print(affordable(kept.results[0]._replace(cases=20_000), kept))
"""
KEEP = """
import sys
from pathlib import Path
from peers_page import Kept
kept = Kept(Path(sys.argv[1]))
longer = kept.results[0]._replace(limit=400.0)
print([len(kept.same(each)) for each in (kept.results[0], longer)])
kept.add(longer)
print(len(Kept(Path(sys.argv[1])).results))
"""
MEASURE = """
import json, sys
from measure import measure
print(json.dumps(measure([sys.executable, "-c", "while True: pass"], limit=0.3)))
"""


def python(*words: object) -> str:
    """What a Python prints that finds the modules of the benchmarks."""
    found = {**os.environ, "PYTHONPATH": os.pathsep.join([str(BENCH), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=60, env=found).stdout


def result(who: str, **more: Any) -> str:
    """One line of the file that results are kept in."""
    cost = {"cpu": 2.0, "wall": 60.0, "memory": 70e6, "left": 8e6, "candidate": 2000, "judge": 2000, "bytes": 1, "in_flight": 64}
    fixed = {"version": "1.2.3", "start": "", "cases": 2000, "asked": 2000, "latency": 0, "limit": 240.0, "is_alone": True}
    setting = {"at": "2026-01-31T00:00:00+00:00", "machine": "an abacus", "load": 1.0}
    return json.dumps({"who": who, **fixed, **setting, **more, "cost": cost | more.get("cost", {})})


def test_quick_form_counts_the_calls_of_the_bare_loop_and_of_assay(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    printed = python(BENCH, "peers", "--quick", "--cases", 40, "--only", "bare loop", "--only", "assay", "--results", kept)
    runs = [run for run in map(json.loads, kept.read_text().splitlines()) if not run["start"]]
    assert [(run["who"], run["cost"]["candidate"], run["cost"]["judge"]) for run in runs] == [
        ("bare loop", 40, 40),
        ("assay", 40, 40),
    ]
    assert "### 40 cases, 0 ms" in printed
    assert "| assay --version " in printed


def test_page_says_who_did_not_finish_who_had_fewer_cases_and_who_lost_results(tmp_path: Path) -> None:
    kept, page, chart = (tmp_path / name for name in ("kept.jsonl", "page.md", "chart.svg"))
    stopped = result("MLflow", cost={"cpu": 213.0, "judge": 213, "stopped": 240.0})
    fewer = result("Inspect AI", cases=20_000, asked=6_000, cost={"graded": 5_990})
    kept.write_text("\n".join([result("bare loop", cost={"cpu": 1.0}), result("assay"), stopped, fewer]))
    page.write_text("before <!-- setting --> old <!-- end --> <!-- runs --> <!-- end --> <!-- starts --> <!-- end --> after")
    python("-c", WRITE, kept, page, chart)
    text = page.read_text()
    assert (text.startswith("before"), text.endswith("after"), "old" in text) == (True, True, False)
    assert "| assay     | 1.00            | 2.00        |" in text
    assert "did not finish: 213 of 2,000 cases in 240 s" in text
    assert "6,000, of which 10 were left without a result; 20,000 would take longer than 240 s" in text
    assert "1,000, after 213 cases" in chart.read_text()


@pytest.mark.parametrize(
    ("cost", "cases"),
    [({"wall": 60.0}, 7_000), ({"wall": 6.0}, 20_000), ({"wall": 200.0}, 0), ({"wall": 240.0, "stopped": 240.0}, 0)],
)
def test_peer_gets_as_many_cases_as_fewer_of_them_say_it_can_do(tmp_path: Path, cost: dict[str, float], cases: int) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.write_text(result("Inspect AI", cost=cost))
    assert int(python("-c", AFFORD, kept)) == cases


def test_larger_limit_measures_again_what_had_too_little_time_and_replaces_it(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.write_text(result("MLflow", cost={"judge": 213, "stopped": 240.0}) + "\n")
    assert python("-c", KEEP, kept).split("\n")[:2] == ["[1, 0]", "1"]


def test_command_that_passes_its_limit_is_stopped_and_its_cost_known() -> None:
    cost = json.loads(python("-c", MEASURE))
    assert cost["stopped"] == 0.3
    assert cost["cpu"] > 0


def test_locks_have_a_hash_of_everything_and_say_of_nothing_where_it_comes_from() -> None:
    packages = json.loads((BENCH / "locks" / "promptfoo" / "package-lock.json").read_bytes())["packages"]
    assert [name for name, package in packages.items() if name and ("integrity" not in package or "resolved" in package)] == []
    pins = [line for lock in (BENCH / "locks").glob("*.txt") for line in lock.read_text().splitlines() if "==" in line]
    assert [pin for pin in pins if not pin.endswith("\\")] == []
