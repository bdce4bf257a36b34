"""Texts of datasets and models stay texts on every page."""

from collections.abc import Iterator

import pytest

from tests.surfaces.pages.browsing import HOSTILE, Visit, make_run
from tests.surfaces.server.serving import Serving

SAFE_TAGS = tuple(text for text in HOSTILE if text.isprintable())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    serving = Serving(tmp_path_factory.mktemp("hostile"))
    serving.runs_dir.mkdir()
    make_run(serving.runs_dir, "hostile", tags=SAFE_TAGS, model=f"scripted/say-{' '.join(HOSTILE)}")
    with serving:
        yield serving


@pytest.mark.parametrize("path", ["/runs", "/runs/hostile"])
def test_hostile_texts_are_shown_and_do_nothing(hostile: Serving, visit: Visit, path: str) -> None:
    page = visit(hostile, path).page
    page.wait_for_timeout(300)
    assert HOSTILE[1] in page.locator("main").inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main b, main [onerror], main [onload]").count() == 0
    assert page.locator('main a:not([href^="/"]):not([href^="?"])').count() == 0


def test_every_slice_is_named_as_it_is(hostile: Serving, visit: Visit) -> None:
    shown = visit(hostile, "/runs/hostile").page.get_by_role("region", name="Slices", exact=True).inner_text()
    assert [tag for tag in SAFE_TAGS if tag not in shown] == []


def test_reordering_and_escapes_are_shown_as_pictures(hostile: Serving, visit: Visit) -> None:
    content = visit(hostile, "/runs/hostile").page.content()
    assert "gnp.exe" in content
    assert not {"\u202e", "\u2066", "\x1b", "\x07"} & set(content)


@pytest.mark.parametrize("query", ["q=%22%3E%3Cscript%3E", "dataset=%3Cimg%20src%3Dx%3E", "model=%00%1b", "after=..%2F.."])
def test_what_an_address_says_is_text_too(hostile: Serving, visit: Visit, query: str) -> None:
    page = visit(hostile, f"/runs?{query}").page
    assert page.locator("main img, main script").count() == 0
