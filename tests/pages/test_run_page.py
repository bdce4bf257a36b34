"""One run in a browser."""

import pytest

from tests.pages.browsing import Visit, barriers
from tests.server.serving import Serving


def test_the_decision_and_its_reason_stand_at_the_top(gallery: Serving, visit: Visit) -> None:
    decision = visit(gallery, "/runs/poor").page.get_by_role("region", name="Decision").inner_text()
    assert "fail" in decision.lower()
    assert "is below 0.90" in decision


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("run_id", ["good", "poor", "broken"])
def test_nothing_keeps_anybody_from_using_the_page(gallery: Serving, visit: Visit, run_id: str, theme: str) -> None:
    assert barriers(visit(gallery, f"/runs/{run_id}", color_scheme=theme).page) == []


def test_a_number_explains_itself_when_it_is_focused(gallery: Serving, visit: Visit) -> None:
    page = visit(gallery, "/runs/good").page
    page.locator(".key-value .tip").first.focus()
    assert "95 % interval" in page.get_by_role("tooltip").inner_text()


def test_a_run_that_nobody_knows_is_a_page_that_leads_back(gallery: Serving, visit: Visit) -> None:
    visitor = visit(gallery, "/runs/nobody")
    visitor.expect_status(404)
    assert "Nothing here" in visitor.page.get_by_role("heading", level=1).inner_text()
    assert visitor.page.get_by_role("link", name="To the runs").get_attribute("href") == "/runs"


def test_programs_still_get_the_envelope(gallery: Serving) -> None:
    assert gallery.ask("GET", "/runs/nobody").json["error"]["code"] == "not_found"
    assert gallery.ask("GET", "/v1/runs/nobody", headers={"Accept": "text/html"}).json["error"]["code"] == "not_found"
