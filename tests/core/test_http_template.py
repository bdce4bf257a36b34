"""Templates of requests: values are data, whatever they hold."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.http_template import OMITTED, fill, fill_text, slot_problem, slots_in, variables_in

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def filled(template: Any, *, environ: dict[str, str] | None = None, **values: Any) -> Any:
    return fill(template, lambda slot: values[slot], environ or {})


@given(JSON)
def test_a_value_alone_keeps_its_type(value: Any) -> None:
    assert filled({"a": ["{{prompt}}", 1]}, prompt=value) == {"a": [value, 1]}


@given(st.text())
def test_json_stays_well_formed_and_values_are_not_filled_again(text: str) -> None:
    hostile = f'{text}"}}, {{{{session}}}} ${{HOME}} {text}\\'
    body = filled({"q": "Q: {{prompt}}!", "n": 1}, environ={"HOME": "/root"}, prompt=hostile, session="never")
    assert json.loads(json.dumps(body)) == {"q": f"Q: {hostile}!", "n": 1}


def test_other_values_within_a_text_are_json() -> None:
    assert filled("{{ metadata.x }} and {{prompt}}", **{"metadata.x": {"a": [1]}, "prompt": "p"}) == '{"a":[1]} and p'


def test_what_is_not_known_yet_is_left_out() -> None:
    assert filled({"s": "{{session}}", "t": ["{{session}}"], "u": "x{{session}}"}, session=OMITTED) == {"t": [], "u": "x"}


def test_variables_come_from_the_environment() -> None:
    assert filled("Bearer ${TOKEN}", environ={"TOKEN": " t "}) == "Bearer t"
    assert fill_text("?q={{prompt}}&k=${K}", lambda _: "a b&c", {"K": "k/k"}, quote=lambda text: text.replace(" ", "%20")) == (
        "?q=a%20b&c&k=k/k"
    )


def test_a_template_lists_what_it_needs() -> None:
    template = {"a": ["{{prompt}} {{ metadata.x }}", {"b": "${K} {{prompt}}"}], "{{model}}": "${K}"}
    assert (slots_in(template), variables_in(template)) == (("prompt", "metadata.x"), ("K",))


@pytest.mark.parametrize("slot", ["question", "metadata.", "metadata..x", "", "prompt.x", "prompt|upper"])
def test_an_unknown_value_lists_the_known_ones(slot: str) -> None:
    assert "known are {{prompt}}" in slot_problem(slot)


@pytest.mark.parametrize("slot", ["prompt", "metadata", "metadata.a.b", "record_id"])
def test_a_known_value_is_no_problem(slot: str) -> None:
    assert slot_problem(slot) == ""
