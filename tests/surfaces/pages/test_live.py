"""Runs that go on while somebody looks."""

import html
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.crash.provider import CountingProvider
from tests.surfaces.pages.browsing import Visit, barriers
from tests.surfaces.server.serving import Serving, dataset

RUN_FILE = """
candidates: [stub/candidate]
judges: [scripted/judge-any]
providers: [{{name: stub, base_url: "{}", timeout: 600}}]
run: {{concurrency: 2}}
"""


@pytest.fixture
def provider() -> Iterator[CountingProvider]:
    """A provider that answers when it is told to, so that a run goes on for as long as a test looks at it."""
    with CountingProvider(lambda *_: (200, "4", {})) as held:
        held.hold()
        yield held


@pytest.fixture
def serving(tmp_path: Path, provider: CountingProvider) -> Iterator[Serving]:
    """A server whose runs wait for that provider."""
    with Serving(tmp_path, run_file=RUN_FILE.format(provider.base_url)) as opened:
        yield opened


def begun(serving: Serving, provider: CountingProvider, *, records: int, query: str = "") -> str:
    """A run that has done something and stays before its end."""
    run_id: str = serving.submit(dataset(records), query).json["run_id"]
    provider.let(2)
    serving.wait_for(lambda: serving.ask("GET", f"/v1/runs/{run_id}").json["done_records"])
    return run_id


def followed(serving: Serving, visit: Visit) -> Page:
    """The list of runs, which the server keeps up to date from now on."""
    visitor = visit(serving, "/compare")
    # The first page that follows anything in this tab: an answer to an earlier one cannot be taken for its own.
    with visitor.page.expect_response("**/live/runs*"):
        visitor.go("/runs")
    return visitor.page


def test_the_page_of_a_run_follows_it_to_its_end(serving: Serving, provider: CountingProvider, visit: Visit) -> None:
    page = visit(serving, f"/runs/{begun(serving, provider, records=60)}").page
    expect(page.get_by_role("heading", name="of 60 records done")).to_be_visible()
    expect(page.get_by_text("records a second")).to_be_visible()
    assert barriers(page) == []
    provider.let_go()
    expect(page.get_by_role("region", name="Decision")).to_be_visible()
    expect(page.get_by_text("60 records", exact=True)).to_be_visible()


def test_the_list_follows_its_runs_without_being_loaded_again(serving: Serving, provider: CountingProvider, visit: Visit) -> None:
    run_id = begun(serving, provider, records=30)
    page = followed(serving, visit)
    page.evaluate("window.isTheSame = true")
    row = page.locator(f"#run-{run_id}")
    expect(row).to_contain_text("running")
    provider.let_go()
    expect(row).to_contain_text("completed")
    expect(row).to_contain_text("n 30")
    assert page.evaluate("window.isTheSame")


def test_a_new_run_is_announced(serving: Serving, provider: CountingProvider, visit: Visit) -> None:
    begun(serving, provider, records=3)
    page = followed(serving, visit)
    serving.submit(dataset(1))
    expect(page.get_by_role("status")).to_contain_text("1 new")
    page.get_by_role("link", name="Show the list again").click()
    expect(page.locator("table.runs tbody tr")).to_have_count(2)


def test_a_new_run_is_announced_once(serving: Serving, provider: CountingProvider) -> None:
    run_id = begun(serving, provider, records=500)
    told: list[bytes] = []
    with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/live/runs", timeout=60) as stream:
        told.append(stream.readline())
        serving.submit(dataset(1))
        serving.wait_for(lambda: told.append(stream.readline()) or b"1 new" in told[-1])
        for _ in range(2):
            provider.let(20)
            serving.wait_for(lambda: told.append(stream.readline()) or f'id="run-{run_id}"'.encode() in told[-1])
    assert b"".join(told).count(b"1 new") == 1


def test_what_happens_between_a_page_and_its_stream_is_told(serving: Serving, provider: CountingProvider) -> None:
    run_id = begun(serving, provider, records=3)
    page = serving.ask("GET", "/runs", headers={"Accept": "text/html"}).body.decode()
    (address,) = re.findall(r'data-live="([^"]+)"', page)
    provider.let_go()
    serving.ended(run_id)
    serving.ended(serving.submit(dataset(1)).json["run_id"])
    told: list[bytes] = []
    with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}{html.unescape(address)}", timeout=60) as stream:
        serving.wait_for(lambda: told.append(stream.readline()) or b"1 new" in told[-1])
    assert re.search(rf'id="run-{run_id}"(?s:.*)completed', b"".join(told).decode())


def show(page: Page, *, is_hidden: bool) -> None:
    """What a browser says to a page that comes before another, or behind it."""
    page.evaluate(f"Object.defineProperty(document, 'hidden', {{ value: {json.dumps(is_hidden)}, configurable: true }})")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_tabs_that_nobody_sees_leave_connections_to_the_others(serving: Serving, provider: CountingProvider, visit: Visit) -> None:
    begun(serving, provider, records=3)
    visitor = visit(serving, "/runs")
    tabs = [visitor.page, *(visitor.page.context.new_page() for _ in range(8))]
    for tab in tabs:
        tab.goto(f"{visitor.address}/runs")
        expect(tab.locator("table.runs tbody tr")).to_have_count(1)
        show(tab, is_hidden=True)
    serving.submit(dataset(1))
    with tabs[0].expect_response("**/live/runs*"):
        show(tabs[0], is_hidden=False)
    expect(tabs[0].locator("table.runs tbody tr")).to_have_count(2)
    serving.submit(dataset(1))
    expect(tabs[0].get_by_role("status")).to_contain_text("1 new")


def test_cancelling_asks_first_and_shows_what_is_left(serving: Serving, provider: CountingProvider, visit: Visit) -> None:
    page = visit(serving, f"/runs/{begun(serving, provider, records=500)}").page
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_text("Cancel this run permanently?")).to_be_visible()
    with page.expect_response("**/cancel"):
        page.get_by_role("button", name="Cancel the run").click()
    # What was asked already is waited for.
    provider.let(2)
    expect(page.locator(".head")).to_contain_text("cancelled")
    page.locator(".shares").get_by_role("link", name="cancelled").click()
    expect(page.locator("table.records tbody tr").first).to_contain_text("cancelled")


def test_a_cancelled_run_has_passed_nothing(serving: Serving, provider: CountingProvider, visit: Visit) -> None:
    run_id = begun(serving, provider, records=500, query="?pass_rate=0.01")
    serving.ask("POST", f"/v1/runs/{run_id}/cancel")
    provider.let(2)
    ended = serving.ended(run_id)
    assert (ended["state"], ended["gate"]["passed"]) == ("cancelled", False)
    page = visit(serving, f"/runs/{run_id}").page
    expect(page.get_by_role("region", name="Decision")).to_contain_text("no result")
    expect(page.get_by_role("region", name="Decision")).to_contain_text(ended["gate"]["reasons"][0])
    page.goto(f"{page.url.partition('/runs/')[0]}/runs")
    expect(page.locator(f"#run-{run_id} td[data-label='State']")).to_contain_text("cancelled")


def state_of(serving: Serving, run_id: str) -> tuple[str, bool] | None:
    told = serving.ask("GET", f"/v1/runs/{run_id}")
    return (told.json["state"], told.json["is_interrupted"]) if told.status == 200 else None


def test_a_run_that_was_interrupted_elsewhere_can_be_gone_on_with(serving: Serving, visit: Visit) -> None:
    (serving.folder / "data.json").write_text(json.dumps(dataset(500)), encoding="utf-8")
    models = ["--model", "scripted/slow-200", "--judge", "scripted/judge-5", "--concurrency", "2"]
    options = ["--run-id", "left", "--runs-dir", str(serving.runs_dir), "--quiet", *models]
    with subprocess.Popen([sys.executable, "-m", "assay", "run", str(serving.folder / "data.json"), *options]) as elsewhere:
        serving.wait_for(lambda: state_of(serving, "left") == ("running", False))
        page = visit(serving, "/runs/left").page
        expect(page.locator("#standing-title .mark")).to_have_text("running")
        expect(page.get_by_role("button", name="Resume")).to_have_count(0)
        elsewhere.kill()
    expect(page.locator("#standing-title .mark")).to_have_text("interrupted")
    assert state_of(serving, "left") == ("running", True)
    for state in ("interrupted", "running"):
        (listed,) = serving.ask("GET", f"/v1/runs?state={state}").json["runs"]
        assert (listed["run_id"], listed["state"], listed["is_interrupted"]) == ("left", "running", True)
    listing = visit(serving, "/runs?state=interrupted").page
    expect(listing.locator("#run-left td[data-label='State']")).to_have_text("interrupted")
    listing.goto(listing.url.replace("interrupted", "running"))
    expect(listing.locator("#run-left")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("records a second")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_have_count(0)
    expect(page.locator("#standing-title .mark")).to_have_text("running")


def test_a_lost_connection_is_said_and_mended_by_itself(serving: Serving, provider: CountingProvider, visit: Visit) -> None:
    begun(serving, provider, records=3)
    visitor = visit(serving, "/runs")
    serving.kill()
    expect(visitor.page.get_by_text("The connection to the server is lost")).to_be_visible()
    serving.start()
    expect(visitor.page.get_by_text("The connection to the server is lost")).to_be_hidden()
    visitor.complaints = [text for text in visitor.complaints if "ERR_" not in text]


def test_the_last_failures_are_shown_as_they_come(tmp_path: Path, visit: Visit) -> None:
    with CountingProvider(lambda *_: (400, "no", {})) as refusing:
        refusing.hold()
        with Serving(tmp_path, run_file=RUN_FILE.format(refusing.base_url)) as serving:
            page = visit(serving, f"/runs/{begun(serving, refusing, records=60)}").page
            expect(page.get_by_role("heading", name="Last errors")).to_be_visible()
            expect(page.locator("#standing")).to_contain_text("q_0000")
            refusing.let(2)
            expect(page.locator("#standing")).to_contain_text("q_0002")
