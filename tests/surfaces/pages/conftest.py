"""One browser and one server with runs for all tests that only look."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.surfaces.pages.browsing import PATIENCE, SLOWEST, Visit, Visitor, close_within, make_run, open_browser, visiting
from tests.surfaces.server.serving import Serving


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one file of tests: its driver keeps an event loop in this thread, which other tests must not meet."""
    expect.set_options(timeout=SLOWEST)
    with sync_playwright() as driver:
        found = open_browser(driver)
        yield found
        close_within(found, PATIENCE)


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with runs to look at: `good` passes its gate, `poor` misses it, `broken` has errors alone."""
    serving = Serving(tmp_path_factory.mktemp("gallery"), settings="requests_per_minute: 100000\n")
    serving.runs_dir.mkdir()
    make_run(serving.runs_dir, "good", group="pair")
    make_run(serving.runs_dir, "poor", pass_rate=0.9, group="pair")
    make_run(serving.runs_dir, "broken", records=3, model="scripted/fail-invalid_request")
    with serving:
        yield serving


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens a page of a server in a tab of its own: `visit(gallery, "/runs")`; what it saw is checked at the end of the test."""
    with ExitStack() as tabs:

        def opened(serving: Serving, path: str, **options: Any) -> Visitor:
            visitor = tabs.enter_context(visiting(browser, f"http://127.0.0.1:{serving.port}", **options))
            visitor.go(path)
            return visitor

        yield opened
