"""Pictures of the shipped examples for the documentation: `python -m tests.surfaces.pages.screenshots` writes docs/images anew."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, expect, sync_playwright

from tests.surfaces.pages.browsing import open_browser
from tests.surfaces.server.serving import Serving

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
LARGEST = 150_000
"""Bytes of a picture."""
RECORDING = "replay/examples/recordings/demo.jsonl"
RUNS = (
    ("examples/runs/two-candidates.yaml", "--run-id", "golden"),
    (
        "examples/legal_eval_v1/contract-law.jsonl",
        "--run-id",
        "legal",
        "--model",
        RECORDING,
        "--judge",
        RECORDING,
        "--pass-rate",
        "0.6",
    ),
    (
        "examples/batch_v1/support-answers.json",
        "--run-id",
        "support",
        "--model",
        RECORDING,
        "--judge",
        RECORDING,
        "--pass-rate",
        "0.75",
    ),
)


class Picture(NamedTuple):
    """A page as a reader sees it."""

    name: str
    path: str
    width: int = 1280
    height: int = 860


PICTURES = (
    Picture("runs", "/runs", height=420),
    Picture("run", "/runs/golden-hasty"),
    Picture("records", "/runs/legal/records?sort=score", height=620),
    Picture("record", "/runs/legal/records/1", width=1180, height=760),
    Picture("compare", "/compare?before=golden-hasty&after=golden-careful", height=760),
)


def main() -> None:
    """Make the runs of the examples, look at them, and keep the pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = Path(name)
        serving = Serving(folder, settings="requests_per_minute: 100000\n")
        for run in RUNS:
            assay("run", *run, "--runs-dir", str(serving.runs_dir), "--quiet")
        assay("report", "legal", "--runs-dir", str(serving.runs_dir), "-o", str(folder / "legal.html"))
        browser = open_browser(driver)
        with serving:
            for picture in PICTURES:
                take(browser, f"http://127.0.0.1:{serving.port}{picture.path}", picture)
        take(browser, f"{(folder / 'legal.html').as_uri()}#records?sort=score", Picture("report", "", height=640))
        browser.close()


def assay(*words: str) -> None:
    """Run a command; a missed gate is one of the things to be seen."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        sys.exit(done.stderr)


def take(browser: Browser, address: str, picture: Picture) -> None:
    """One picture, in a tab of its own."""
    size = {"width": picture.width, "height": picture.height}
    context = browser.new_context(viewport=size, timezone_id="UTC")  # type: ignore[arg-type]  # two numbers by name
    page = context.new_page()
    page.goto(address)
    expect(page.locator("[data-wait]")).to_have_count(0)
    page.wait_for_timeout(400)
    path = IMAGES / f"{picture.name}.png"
    page.screenshot(path=path)
    context.close()
    taken = path.stat().st_size
    sys.stdout.write(f"{path.relative_to(ROOT)} {taken:,} bytes\n")
    if taken > LARGEST:
        sys.exit(f"{path.name} is larger than {LARGEST:,} bytes")


if __name__ == "__main__":
    main()
