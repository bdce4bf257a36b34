"""The fast path of conversation_v1 and its exact rules agree: what it accepts has no issue, and the same hash."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import ValidationConfig, validate
from assay.core.strict_json import parse_json
from assay.datasets.conversation_v1.fast import Conversations, fast_path_for
from assay.datasets.conversation_v1.rules import check_document
from tests.datasets.test_reader_agreement import DEFAULT, EXAMPLES, TURNS, digests_of, rfc8785_digest, seeds
from tests.mutants import mutant_of

CONFIGS = (
    DEFAULT,
    ValidationConfig(strict_mode=True),
    ValidationConfig(allow_empty_messages=True, min_message_length=4, min_assistant_reply_length=0),
    ValidationConfig(allowed_tools=["timetable"], require_tool_input=False, require_tool_output=False, check_turn_sequence=False),
    ValidationConfig(min_turns=2, max_turns=3, max_message_length=20, confidence_score_min=-1, confidence_score_max=0.75),
    ValidationConfig(min_message_length=0, min_assistant_reply_length=0),
)


def conversation_lane(config: ValidationConfig) -> Conversations:
    fast_path = fast_path_for(config)
    assert fast_path is not None
    return fast_path


@pytest.mark.parametrize("config", CONFIGS[:1])
def test_the_fast_path_takes_a_clean_conversation(config: ValidationConfig) -> None:
    [turns] = conversation_lane(config).clean_rows([msgspec.json.encode(TURNS)])
    assert turns is not None
    assert len(turns) == len(TURNS)


@given(seeds, st.sampled_from(CONFIGS))
@EXAMPLES
def test_a_conversation_that_the_fast_path_takes_has_no_finding(seed: int, config: ValidationConfig) -> None:
    random = Random(seed)
    contents = [mutant_of(list(TURNS), random) for _ in range(8)]
    for content, turns in zip(contents, conversation_lane(config).clean_rows(contents), strict=True):
        document = parse_json(content)
        assert turns is None or (len(turns), list(check_document(document, config))) == (len(document.value), [])


@given(seeds)
@EXAMPLES
def test_an_accepted_conversation_has_the_hash_of_rfc8785(seed: int) -> None:
    random = Random(seed)
    content = mutant_of(list(TURNS), random)
    digests = digests_of(validate(content, "conversation_v1"))
    assert digests == [rfc8785_digest(parse_json(content).value) for _ in digests]
