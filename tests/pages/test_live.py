"""Runs that go on while somebody looks."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.pages.browsing import Visit, barriers
from tests.server.serving import Serving, dataset

SLOW = "candidates: [scripted/slow-200]\njudges: [scripted/judge-any]\nrun: {concurrency: 2}\n"


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Serving]:
    """A server whose runs take a while."""
    with Serving(tmp_path, run_file=SLOW) as serving:
        yield serving


def begun(serving: Serving, records: int) -> str:
    """A run that has done something and is far from its end."""
    run_id: str = serving.submit(dataset(records)).json["run_id"]
    serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").json["done_records"])
    return run_id


def test_the_page_of_a_run_follows_it_to_its_end(slow: Serving, visit: Visit) -> None:
    page = visit(slow, f"/runs/{begun(slow, 60)}").page
    expect(page.get_by_role("heading", name="of 60 records done")).to_be_visible()
    expect(page.get_by_text("records a second")).to_be_visible()
    assert barriers(page) == []
    expect(page.get_by_role("region", name="Decision")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("60 records", exact=True)).to_be_visible()


def test_the_list_follows_its_runs_without_being_loaded_again(slow: Serving, visit: Visit) -> None:
    run_id = begun(slow, 30)
    page = visit(slow, "/runs").page
    page.evaluate("window.isTheSame = true")
    row = page.locator(f"#run-{run_id}")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("completed", timeout=30_000)
    expect(row).to_contain_text("n 30")
    assert page.evaluate("window.isTheSame")


def test_a_new_run_is_announced(slow: Serving, visit: Visit) -> None:
    begun(slow, 3)
    page = visit(slow, "/runs").page
    slow.submit(dataset(1))
    expect(page.get_by_role("status")).to_contain_text("1 new", timeout=30_000)
    page.get_by_role("link", name="Show the list again").click()
    expect(page.locator("table.runs tbody tr")).to_have_count(2)


def test_a_new_run_is_announced_once(slow: Serving) -> None:
    run_id = begun(slow, 500)
    told: list[bytes] = []
    with urllib.request.urlopen(f"http://127.0.0.1:{slow.port}/live/runs", timeout=30) as stream:
        told.append(stream.readline())
        slow.submit(dataset(1))
        slow.wait_for(lambda: told.append(stream.readline()) or b"1 new" in told[-1])
        for _ in range(2):
            slow.wait_for(lambda: told.append(stream.readline()) or f'id="run-{run_id}"'.encode() in told[-1])
    assert b"".join(told).count(b"1 new") == 1


def show(page: Page, *, is_hidden: bool) -> None:
    """What a browser says to a page that comes before another, or behind it."""
    page.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {json.dumps(is_hidden)}, configurable: true }})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_tabs_that_nobody_sees_leave_connections_to_the_others(slow: Serving, visit: Visit) -> None:
    begun(slow, 3)
    visitor = visit(slow, "/runs")
    tabs = [visitor.page, *(visitor.page.context.new_page() for _ in range(8))]
    for tab in tabs:
        tab.goto(f"{visitor.address}/runs")
        expect(tab.locator("table.runs tbody tr")).to_have_count(1)
        show(tab, is_hidden=True)
    slow.submit(dataset(1))
    show(tabs[0], is_hidden=False)
    expect(tabs[0].locator("table.runs tbody tr")).to_have_count(2)
    slow.submit(dataset(1))
    expect(tabs[0].get_by_role("status")).to_contain_text("1 new", timeout=30_000)


def test_cancelling_asks_first_and_shows_what_is_left(slow: Serving, visit: Visit) -> None:
    page = visit(slow, f"/runs/{begun(slow, 500)}").page
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_text("End this run for good?")).to_be_visible()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator(".head")).to_contain_text("cancelled", timeout=30_000)
    expect(page.locator(".shares")).to_contain_text("skipped")


def test_a_run_that_was_interrupted_elsewhere_can_be_gone_on_with(slow: Serving, visit: Visit) -> None:
    (slow.folder / "data.json").write_text(json.dumps(dataset(500)), encoding="utf-8")
    models = ["--model", "scripted/slow-200", "--judge", "scripted/judge-5", "--concurrency", "2"]
    options = ["--run-id", "left", "--runs-dir", str(slow.runs_dir), "--quiet", *models]
    with subprocess.Popen([sys.executable, "-m", "assay", "run", str(slow.folder / "data.json"), *options]) as elsewhere:
        slow.wait_for(lambda: slow.ask("GET", "/v1/runs/left").status == 200)
        elsewhere.kill()
    page = visit(slow, "/runs/left").page
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("records a second")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)


def test_a_lost_connection_is_said_and_mended_by_itself(slow: Serving, visit: Visit) -> None:
    begun(slow, 3)
    visitor = visit(slow, "/runs")
    slow.kill()
    expect(visitor.page.get_by_text("The connection to the server is lost")).to_be_visible(timeout=30_000)
    slow.start()
    expect(visitor.page.get_by_text("The connection to the server is lost")).to_be_hidden(timeout=30_000)
    visitor.complaints = [text for text in visitor.complaints if "ERR_" not in text]


def test_the_last_failures_are_shown_as_they_come(tmp_path: Path, visit: Visit) -> None:
    slowly = "run: {concurrency: 1, generation: {requests_per_minute: 60}}\n"
    failing = f"candidates: [scripted/fail-bad_request]\njudges: [scripted/judge-5]\n{slowly}"
    with Serving(tmp_path, run_file=failing) as serving:
        run_id = begun(serving, 60)
        page = visit(serving, f"/runs/{run_id}").page
        expect(page.get_by_role("heading", name="Last failures")).to_be_visible()
        expect(page.locator("#standing")).to_contain_text("q_0000")
