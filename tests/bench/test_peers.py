"""Other frameworks are measured beside assay: the quick form without them, and the page that is made of results."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[2] / "bench"
WRITE = """
import sys
from pathlib import Path
bench, kept, page, chart = sys.argv[1:]
sys.path.insert(0, bench)
from peers_page import Kept, write_peers_page
write_peers_page(Kept(Path(kept)).results, page=Path(page), chart=Path(chart))
"""


def python(*words: object) -> str:
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, encoding="utf-8", check=True, timeout=60).stdout


def result(who: str, **more: Any) -> str:
    """One line of the file that results are kept in."""
    cost = {"cpu": 2.0, "wall": 3.0, "memory": 70e6, "left": 8e6, "candidate": 2000, "judge": 2000, "bytes": 1, "in_flight": 64}
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
    assert "| assay --version |" in printed


def test_page_says_who_did_not_finish_and_who_had_fewer_cases(tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    stopped = result("MLflow", cost={"cpu": 213.0, "judge": 213, "stopped": 240.0})
    fewer = result("Inspect AI", cases=20_000, asked=6_000)
    kept.write_text("\n".join([result("bare loop", cost={"cpu": 1.0}), result("assay"), stopped, fewer]))
    page, chart = tmp_path / "page.md", tmp_path / "chart.svg"
    page.write_text("before <!-- setting --> old <!-- end --> <!-- runs --> <!-- end --> <!-- starts --> <!-- end --> after")
    python("-c", WRITE, BENCH, kept, page, chart)
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("before")
    assert text.endswith("after")
    assert "| assay     | 1.00            | 2.00        |" in text
    assert "did not finish: 213 of 2,000 cases in 240 s" in text
    assert "6,000: 20,000 would take longer than 240 s" in text
    assert "1,000, after 213 cases" in chart.read_text()
