"""Models in docs, examples and help: all of them in one list, and none that was replaced."""

from datetime import UTC, datetime

from assay.models.prices import find_tariff
from docs.models import NAMES, RECORDED, current, lines, named, outdated, texts

ADDRESSES = {
    "gpt": "https://api.openai.com/v1",
    "claude": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}


def test_every_model_that_a_text_names_is_in_the_list() -> None:
    known = {name for names in lines().values() for name in names}
    unknown = {(path.name, name) for path in texts() for name in named(path.read_text("utf-8")) - known}
    assert unknown == set(), f"name a model of {NAMES.name} instead, or add a line there"


def test_no_text_names_a_model_that_was_replaced() -> None:
    assert [path.name for path in outdated()] == [], "run `make schema` and commit what it writes"


def test_a_model_is_replaced_in_one_line() -> None:
    small, former, *_ = lines()["small"]
    assert current(f"assay run x.json --model openai/{former} --judge 'openai/{former}', {former}-2025") == (
        f"assay run x.json --model openai/{small} --judge 'openai/{small}', {former}-2025"
    )


def test_the_models_of_the_list_have_a_price() -> None:
    for name in (names[0] for line, names in lines().items() if line != RECORDED):
        url = ADDRESSES[name.partition("-")[0]]
        assert find_tariff(url, name, at=datetime(2026, 11, 19, tzinfo=UTC)) is not None
