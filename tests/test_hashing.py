"""Names above U+FFFF are found in a text without reading it."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from assay.datasets.parsing.hashing import has_astral_name, text_has_astral_name

texts = st.text(st.sampled_from('a"\\:,{😀\U0010ffffé'), max_size=6)
values = st.recursive(texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))


@given(values)
def test_a_text_has_an_astral_name_when_its_value_has_one(value: Any) -> None:
    assert text_has_astral_name(orjson.dumps(value)) == has_astral_name(value)
