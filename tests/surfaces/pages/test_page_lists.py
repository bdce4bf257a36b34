"""A page cannot be forgotten: what is documented, looked at in a browser and measured is compared with the routes themselves."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from assay.surfaces.server.app import HANDLERS
from tests.surfaces.pages import test_comparison_page, test_every_page, test_hostile_fields, test_judge_pages, test_validation_page

ROOT = Path(__file__).parents[3]
NO_PAGES = {
    "/": "leads to the list of runs",
    "/runs/{run_id}/record/{record_id}": "leads to the page of a record",
    "/runs/{run_id}/record-json/{index}": "JSON",
    "/runs/{run_id}/labels.jsonl": "a file",
    "/live/runs": "events of a page",
    "/live/runs/{run_id}": "events of a page",
    "/static/{name}": "styles and scripts",
}
"""What is read, and is no page; and why."""
FOR_PROGRAMS = {"/docs", "/docs/style.css", "/openapi.json", "/healthz", "/readyz", "/metrics"}
"""Addresses that docs/reference/http.md tells of, beside those under /v1."""
USABLE = {
    "/validate/{draft_id}": test_validation_page.test_nothing_keeps_anybody_from_validating,
    "/compare/flip": test_comparison_page.test_nothing_keeps_anybody_from_looking_at_a_flip,
    "/judges": test_judge_pages.test_nothing_keeps_anybody_from_looking_at_judges,
    "/judges/{card_id}": test_judge_pages.test_nothing_keeps_anybody_from_looking_at_judges,
}
HARMLESS = {
    "/validate": test_hostile_fields.test_a_hostile_file_is_validated_and_offered_for_a_run_as_text,
    "/validate/{draft_id}": test_hostile_fields.test_a_hostile_file_is_validated_and_offered_for_a_run_as_text,
}
"""Pages whose address is known only when something was made, and the tests that look at them."""
NOT_MEASURED = ("/groups/{group}", "/judges", "/judges/{card_id}", "/runs/{run_id}/judge", "/validate/{draft_id}")
"""Pages whose cost does not grow with the records of a run, that work for what is sent to them, or need runs of a group."""


def routes(method: str) -> set[str]:
    paths = (path for handler in HANDLERS if method in handler.http_methods for path in handler.paths)
    return {re.sub(r":\w+}", "}", path) for path in paths if not path.startswith("/v1")} - FOR_PROGRAMS


PAGES = routes("GET") - set(NO_PAGES)


def unseen(addresses: Iterable[str]) -> set[str]:
    """Pages that none of the addresses leads to."""
    paths = [re.sub("[{]\\w+[}]", "1", address.partition("?")[0]) for address in addresses]
    return {page for page in PAGES if not any(re.fullmatch(re.sub(r"{\w+}", "[^/]+", page), path) for path in paths)}


def measured() -> list[str]:
    """The addresses of the bench, which is read without what it imports."""
    tree = ast.parse((ROOT / "bench" / "pages.py").read_text(encoding="utf-8"))
    (paths,) = (node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PATHS")
    return list(ast.literal_eval(paths).values())


def test_every_page_is_looked_at_with_all_its_barriers() -> None:
    assert unseen(test_every_page.PATHS) == set(USABLE)


def test_every_page_is_looked_at_with_hostile_texts() -> None:
    assert unseen(test_hostile_fields.PATHS) == set(HARMLESS)


def test_every_page_that_grows_with_a_run_is_measured() -> None:
    assert unseen(measured()) == set(NOT_MEASURED)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_every_address_outside_the_interface_for_programs_is_documented(method: str) -> None:
    page = (ROOT / "docs" / "reference" / "pages.md").read_text(encoding="utf-8")
    named = {re.sub(r"{\w+}", "{}", path) for path in re.findall(r"`(/[^`?\s]*)", page)}
    assert {path for path in routes(method) if re.sub(r"{\w+}", "{}", path) not in named} == set()
