"""A real browser before a real server: what it asked for and complained about, what it would tell somebody who cannot see."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Playwright, Request, Response, expect

from assay import api
from tests.surfaces.server.serving import dataset

INSTALL = "no browser: install Debian's chromium (apt-get install chromium), or name one in ASSAY_CHROMIUM"
GRAVE = ("serious", "critical")
T = TypeVar("T")
OWN = ("127.0.0.1", "localhost")
PATIENCE = 10.0
"""Seconds that a page may take to be closed."""
SLOWEST = 60_000
"""Milliseconds that a page may take for anything else: a busy machine is no fault of the page."""
LEFT_OUT = (
    # The list below the address, which each tab draws anew in a process of its own: two thirds of what it costs to open one.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    # A process for a page to come, which is started with each tab and ends with it.
    "SpareRendererForSitePerProcess",
    # What Playwright leaves out itself; the browser heeds the last list alone.
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
"""Features of Chromium that tests do without; a browser that does not know one does not mind."""
SETTLED = "main:not(:has([data-wait])) + footer"
"""The end of a page that does not wait for work of the server."""


def browser_path() -> str:
    """The program to drive; skips the test without one, but never where tests must not be skipped."""
    names = (os.environ.get("ASSAY_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    found = next((path for path in map(shutil.which, filter(None, names)) if path), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(INSTALL)
    return found


def open_browser(driver: Playwright) -> Browser:
    """The browser that is found, without the parts of its window that no page is shown in."""
    return driver.chromium.launch(executable_path=browser_path(), args=[f"--disable-features={','.join(LEFT_OUT)}"])


class Visitor:
    """One tab: goes to addresses of a server, and remembers what the browser asked for and said."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.expected: list[str] = []
        page.on("request", self._ask)
        page.on("console", self._say)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _ask(self, request: Request) -> None:
        self.requests.append(request.url)

    def _say(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def go(self, path: str) -> Response:
        """Open a page and wait until it is there, with whatever work the server does for it."""
        answer = self.page.goto(self.address + path)
        expect(self.page.locator(SETTLED)).to_be_attached()
        assert answer is not None
        return answer

    def foreign(self) -> list[str]:
        """Requests to anywhere but the server and the page itself."""
        asked = [(url, urlsplit(url)) for url in self.requests]
        return [url for url, parts in asked if parts.scheme not in ("data", "blob", "file") and parts.hostname not in OWN]

    def expect_status(self, status: int) -> None:
        """The browser complains of every answer that is an error; this one was wanted."""
        self.expected.append(f"status of {status}")

    def check(self) -> None:
        """Nothing came from elsewhere, and the browser has nothing to complain about, its content policy included."""
        assert self.foreign() == []
        complaints = [ascii(text) for text in self.complaints if not any(words in text for words in self.expected)]
        assert complaints == [], complaints[:3]


Visit = Callable[..., Visitor]
"""Opens a page of a server in a tab of its own: the fixture `visit`."""


@contextmanager
def visiting(browser: Browser, address: str, **options: Any) -> Iterator[Visitor]:
    """A tab of its own, which is checked when it is closed; options are those of a browser context (color_scheme, viewport)."""
    context = browser.new_context(**options)
    context.set_default_timeout(SLOWEST)
    visitor = Visitor(context.new_page(), address)
    try:
        yield visitor
        visitor.check()
    finally:
        close_within(context, PATIENCE)


def close_within(thing: Browser | BrowserContext, seconds: float) -> None:
    """Close it, or leave it to the end of the driver: now and then Chromium loses the word that a page under way is closed.

    The driver itself would wait for that word forever, and it has no public way to be told how long.
    """
    with suppress(TimeoutError):
        thing._sync(asyncio.wait_for(thing._impl_obj.close(reason=None), seconds))


def listen(button: Locator) -> None:
    """Keep every text that a button will show in its `data-said`, so that none is missed that stands there for a moment."""
    button.evaluate(
        """element => {
          const keep = () => { element.dataset.said = `${element.dataset.said ?? ""}${element.textContent}.`; };
          new MutationObserver(keep).observe(element, {childList: true});
        }"""
    )


def expect_view(page: Page, place: str) -> None:
    """Wait until the file shows what stands at a place in it: `#record-3` is a record."""
    name = re.split(r"[-?]", place.removeprefix("#"))[0]
    expect(page.locator("main > div:visible")).to_have_id(f"view-{name or 'run'}")


def barriers(page: Page) -> list[str]:
    """What would keep people with a disability from using the page: serious findings of axe, each with its place."""
    found = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in found
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]


HOSTILE = (
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "<svg onload=window.hacked=1>",
    "![x](http://evil.example/pixel.png)",
    "javascript:window.hacked=1",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egnp.exe\u2066",
    "</textarea></title></style>--><b>bold</b>",
    "data: x\n\nevent: end",
)
"""Texts that want to be more than text."""


def make_run(runs_dir: Path, run_id: str, *, records: int = 40, **options: Any) -> None:
    """A finished run with scores from 1 to 5, two slices and a gate; `tags` are what its records are sliced by."""
    tags = options.pop("tags", ("easy", "hard"))
    tagged = [{**record, "tags": [tags[place % len(tags)]]} for place, record in enumerate(dataset(records)["records"])]
    source = runs_dir.parent / f"{run_id}.json"
    source.write_text(json.dumps({**dataset(1), "records": tagged}), encoding="utf-8")
    settings = {"model": "scripted/echo", "judge": "scripted/judge-any", "pass_rate": 0.2, **options}
    aside(api.run, source, run_id=run_id, runs_dir=str(runs_dir), **settings)


def aside(work: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """What a function gives in another thread: the browser's driver keeps an event loop in this one, and runs need theirs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work, *arguments, **named).result()
