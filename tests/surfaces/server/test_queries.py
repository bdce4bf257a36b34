"""Parameters of queries: what cannot be understood is refused, never ignored."""

from typing import Any

import pytest

from tests.surfaces.server.serving import Serving


def test_search_that_cannot_be_understood_is_refused(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/records?sort=luck")
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


def test_status_that_no_record_can_have_is_refused_and_not_taken_for_none(service: Serving, finished: Any) -> None:
    answer = service.ask("GET", f"/v1/runs/{finished['run_id']}/records?status=broken")
    assert (answer.status, "status is 'broken'; allowed: " in answer.json["error"]["message"]) == (400, True)


NO_SEARCH = [
    ("text=%00", "'text' has no words that a record could have"),
    ("text=force%00majeure", "'text' has no words that a record could have"),
    ("min_score=nan", "'min_score' is nan, which is not a score"),
    ("max_score=-inf", "'max_score' is -inf, which is not a score"),
]


@pytest.mark.parametrize("place", ["/v1/runs", "/runs"])
@pytest.mark.parametrize(("query", "why"), NO_SEARCH)
def test_search_that_finds_all_or_none_whatever_there_is_is_refused(
    service: Serving, finished: Any, place: str, query: str, why: str
) -> None:
    answer = service.ask("GET", f"{place}/{finished['run_id']}/records?{query}")
    assert (answer.status, why in answer.json["error"]["message"]) == (400, True)


def test_text_of_blanks_is_refused_and_in_the_form_of_a_page_left_out(service: Serving, finished: Any) -> None:
    assert service.ask("GET", f"/v1/runs/{finished['run_id']}/records?text=%20").status == 400
    assert service.ask("GET", f"/runs/{finished['run_id']}/records?text=%20").status == 200
