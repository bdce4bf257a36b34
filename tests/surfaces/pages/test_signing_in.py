"""Signing in with a key: who gets in, what the browser keeps, what others cannot do with it."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from assay.surfaces.server.keys import SECONDS, KeyStore, SessionStore
from tests.surfaces.pages.browsing import Visit, barriers, make_run
from tests.surfaces.server.serving import Serving, dataset

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SLOW = "candidates: [scripted/slow-500]\njudges: [scripted/judge-any]\nrun: {concurrency: 1}\n"


class Locked(NamedTuple):
    serving: Serving
    keys: KeyStore
    reader: str
    writer: str


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    serving = Serving(tmp_path_factory.mktemp("locked"), run_file=SLOW)
    serving.runs_dir.mkdir()
    make_run(serving.runs_dir, "good", records=4)
    keys = KeyStore(serving.runs_dir)
    found = Locked(serving, keys, keys.add("reader", "read"), keys.add("writer", "write"))
    with serving:
        yield found


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def cookie_of(serving: Serving, key: str) -> str:
    """The cookie that a browser would send."""
    headers = {**FORM, "Origin": f"http://127.0.0.1:{serving.port}"}
    answer = serving.ask("POST", "/sign-in", f"key={key}&next=/runs".encode(), headers)
    return answer.headers["set-cookie"].split(";")[0]


def test_a_key_leads_to_the_page_that_asked_for_it(locked: Locked, visit: Visit) -> None:
    visitor = visit(locked.serving, "/runs/good")
    assert barriers(visitor.page) == []
    sign_in(visitor.page, "assay_guess")
    expect(visitor.page.get_by_text("That key is not known")).to_be_visible()
    sign_in(visitor.page, locked.reader)
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("good")
    visitor.expect_status(401)


def test_what_the_browser_keeps_is_not_the_key_and_out_of_reach_of_scripts(locked: Locked, visit: Visit) -> None:
    visitor = visit(locked.serving, "/runs")
    sign_in(visitor.page, locked.reader)
    expect(visitor.page.get_by_role("button", name="Sign out")).to_be_visible()
    (kept,) = visitor.page.context.cookies()
    assert (kept["httpOnly"], kept["sameSite"]) == (True, "Strict")
    assert locked.reader not in kept["value"]
    assert visitor.page.evaluate("document.cookie") == ""
    visitor.expect_status(401)


def test_signing_out_ends_the_session_on_the_server_too(locked: Locked, visit: Visit) -> None:
    visitor = visit(locked.serving, "/runs")
    sign_in(visitor.page, locked.reader)
    expect(visitor.page.get_by_role("button", name="Sign out")).to_be_visible()
    (kept,) = visitor.page.context.cookies()
    visitor.page.get_by_role("button", name="Sign out").click()
    expect(visitor.page.get_by_label("Key")).to_be_visible()
    assert locked.serving.ask("GET", "/runs", headers={"Cookie": f"{kept['name']}={kept['value']}"}).status == 401
    visitor.expect_status(401)


def test_a_page_whose_session_has_ended_says_that_it_is_old(locked: Locked, visit: Visit) -> None:
    visitor = visit(locked.serving, "/runs")
    sign_in(visitor.page, locked.keys.add("leaver", "read"))
    expect(visitor.page.get_by_role("button", name="Sign out")).to_be_visible()
    locked.keys.revoke("leaver")
    visitor.page.evaluate("document.querySelector('[data-live]').dataset.live += '?q=x'")
    visitor.page.evaluate("document.dispatchEvent(new Event('assay:changed'))")
    expect(visitor.page.get_by_text("Live updates have stopped")).to_be_visible()
    visitor.expect_status(401)


def test_a_reader_sees_no_button_and_may_not_do_what_it_would(locked: Locked, visit: Visit) -> None:
    serving = locked.serving
    run_id = serving.submit(dataset(200), headers={"x-api-key": locked.writer}).json["run_id"]
    visitor = visit(serving, f"/runs/{run_id}")
    sign_in(visitor.page, locked.reader)
    expect(visitor.page.locator("#standing")).to_be_visible()
    expect(visitor.page.get_by_role("contentinfo")).to_be_visible()
    expect(visitor.page.get_by_role("button", name="Cancel…")).to_have_count(0)
    headers = {"Cookie": cookie_of(serving, locked.reader), "Origin": f"http://127.0.0.1:{serving.port}"}
    assert serving.ask("POST", f"/runs/{run_id}/cancel", b"", headers).status == 403
    visitor.expect_status(401)


def test_a_link_on_another_site_leads_those_who_are_signed_in_to_its_page(locked: Locked, visit: Visit) -> None:
    visitor = visit(locked.serving, "/runs")
    sign_in(visitor.page, locked.reader)
    expect(visitor.page.get_by_role("button", name="Sign out")).to_be_visible()
    visitor.page.goto(f"http://localhost:{locked.serving.port}/docs")
    visitor.page.evaluate(f"location.href = '{visitor.address}/runs/good'")
    expect(visitor.page.get_by_role("heading", level=1)).to_have_text("good")
    visitor.expect_status(401)


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", None])
def test_a_page_of_another_origin_cannot_use_the_session(locked: Locked, origin: str | None) -> None:
    serving = locked.serving
    headers = {"Cookie": cookie_of(serving, locked.writer), **({} if origin is None else {"Origin": origin})}
    assert serving.ask("POST", "/runs/good/cancel", b"", headers).status == 403
    assert serving.ask("POST", "/v1/runs", dataset(1), {**headers, "Content-Type": "application/json"}).status == 403


def test_a_revoked_key_ends_its_sessions(locked: Locked) -> None:
    headers = {"Cookie": cookie_of(locked.serving, locked.keys.add("guest", "read"))}
    assert locked.serving.ask("GET", "/runs", headers=headers).status == 200
    locked.keys.revoke("guest")
    assert locked.serving.ask("GET", "/runs", headers=headers).status == 401


@pytest.mark.parametrize("path", ["/live/runs", "/live/runs/{}", "/v1/runs/{}/events"])
def test_whoever_has_signed_out_is_told_nothing_more(locked: Locked, path: str) -> None:
    serving = locked.serving
    run_id = serving.submit(dataset(200), headers={"x-api-key": locked.writer}).json["run_id"]
    headers = {"Cookie": cookie_of(serving, locked.reader)}
    followed = urllib.request.Request(f"http://127.0.0.1:{serving.port}{path.format(run_id)}", headers=headers)
    with urllib.request.urlopen(followed, timeout=60) as stream:
        stream.readline()
        serving.ask("POST", "/sign-out", b"", {**headers, "Origin": f"http://127.0.0.1:{serving.port}"})
        serving.wait_for(lambda: not stream.readline())
    serving.ask("POST", f"/v1/runs/{run_id}/cancel", b"", {"x-api-key": locked.writer})


def test_a_revoked_key_ends_what_it_follows(locked: Locked) -> None:
    serving, key = locked.serving, locked.keys.add("follower", "read")
    run_id = serving.submit(dataset(200), headers={"x-api-key": locked.writer}).json["run_id"]
    followed = urllib.request.Request(f"http://127.0.0.1:{serving.port}/v1/runs/{run_id}/events", headers={"x-api-key": key})
    with urllib.request.urlopen(followed, timeout=60) as stream:
        stream.readline()
        locked.keys.revoke("follower")
        serving.wait_for(lambda: not stream.readline())
    serving.ask("POST", f"/v1/runs/{run_id}/cancel", b"", {"x-api-key": locked.writer})


def test_where_the_runs_are_is_not_told_to_those_with_a_key(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    headers = {"x-api-key": KeyStore(serving.runs_dir).add("operator", "admin")}
    with serving:
        told = [serving.ask("GET", "/runs", headers=headers)]
        (serving.runs_dir / "broken").mkdir()
        (serving.runs_dir / "broken" / "run_manifest.json").write_text("{")
        told += [serving.ask("GET", path, headers=headers) for path in ("/runs", "/judges", "/v1/runs")]
    assert [answer.status for answer in told] == [200] * 4
    assert b"broken/run_manifest.json" in told[1].body
    assert [str(tmp_path).encode() in answer.body for answer in told] == [False] * 4


def test_a_form_of_many_fields_is_refused(locked: Locked) -> None:
    headers = {**FORM, "Origin": f"http://127.0.0.1:{locked.serving.port}"}
    assert locked.serving.ask("POST", "/sign-in", b"key=x&" * 40, headers).status == 400


def test_an_address_that_breaks_lines_breaks_no_header(locked: Locked) -> None:
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "cross-site"}
    answer = locked.serving.ask("GET", "/runs/x%0d%0aSet-Cookie:%20a=b?q=%0a", headers=headers)
    assert (answer.status, answer.headers["refresh"]) == (401, "0; url=/runs/x%0d%0aSet-Cookie:%20a=b?q=%0a")
    assert "set-cookie" not in answer.headers
    assert locked.serving.ask("GET", "//evil.example/", headers=headers).headers["refresh"] == "0; url=/runs"


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"])
def test_signing_in_leads_nowhere_else(locked: Locked, target: str) -> None:
    headers = {**FORM, "Origin": f"http://127.0.0.1:{locked.serving.port}"}
    answer = locked.serving.ask("POST", "/sign-in", f"key={locked.reader}&next={target}".encode(), headers)
    assert (answer.status, answer.headers["location"]) == (303, "/runs")


def test_a_session_ends_by_itself(tmp_path: Path) -> None:
    now = [0.0]
    keys = KeyStore(tmp_path)
    sessions = SessionStore(keys, lambda: now[0])
    token = sessions.begin(keys.add("reader", "read")) or ""
    assert sessions.caller(token) is not None
    now[0] = SECONDS
    assert sessions.caller(token) is None
