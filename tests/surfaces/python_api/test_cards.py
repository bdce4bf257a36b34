"""Cards of a notebook in a real browser: hostile texts stay texts, and colours can be read in both themes."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import assay
from tests.engine.graded_runs import graded, question
from tests.surfaces.pages.browsing import HOSTILE, aside, barriers

THEMES = {"light": ("true", "#fff", "#212121"), "dark": ("false", "#111", "#e0e0e0")}
"""What JupyterLab says of itself, and its colours."""


def hostile_card(folder: Path) -> str:
    evil = " ".join(HOSTILE)
    rows = [question(f"q{number}{evil}"[:100], prompt=evil, topic=evil) for number in range(4)]
    aside(graded, folder, "evil", rows, {row["id"]: evil for row in rows}, pass_rate=0.9)
    return assay.open_run("evil", runs_dir=folder / "runs")._repr_html_()


def shown(browser: Browser, html: str, theme: str) -> tuple[Page, list[str]]:
    """The card as a notebook of that theme shows it, with everything open, and what the browser asked for or complained about."""
    page, heard = browser.new_page(), list[str]()
    page.on("request", lambda request: heard.append(request.url))
    page.on("console", lambda message: heard.append(message.text))
    page.on("dialog", lambda dialog: heard.append(dialog.message))
    is_light, paper, ink = THEMES[theme]
    opened = html.replace("<details", "<details open")
    body = f'<body data-jp-theme-light="{is_light}" style="background:{paper};color:{ink}">'
    head = '<!doctype html><html lang="en"><head><title>Notebook</title></head>'
    page.set_content(f"{head}{body}<main><h1>Notebook</h1>{opened}</main></body></html>")
    return page, heard


@pytest.mark.parametrize("theme", THEMES)
def test_a_card_runs_nothing_asks_nobody_and_can_be_read(browser: Browser, tmp_path: Path, theme: str) -> None:
    page, heard = shown(browser, hostile_card(tmp_path), theme)
    assert page.locator(".assay-card details").count() == 4
    assert page.locator("script, img, iframe, object, form").count() == 0
    assert page.evaluate("typeof hacked") == "undefined"
    assert heard == []
    assert barriers(page) == []
