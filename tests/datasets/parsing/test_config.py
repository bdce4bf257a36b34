"""Settings of validation in a file: flat or in groups, YAML or JSON, and what is wrong with them."""

from pathlib import Path

import pytest

from assay import SourceUnreadable, UsageProblem, ValidationConfig, validate
from assay.api import load_config
from tests.api.test_validation import TURNS
from tests.conftest import Put


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (ValidationConfig(min_turns=5, max_turns=2), "turns"),
        (ValidationConfig(min_message_length=-1), "negative"),
        (ValidationConfig(max_turns="many"), "max_turns"),  # type: ignore[arg-type]
        (ValidationConfig(allowed_speakers=[]), "allowed_speakers"),
        (ValidationConfig(confidence_score_min=2.0), "confidence_score"),
        (ValidationConfig(confidence_score_max=float("nan")), "confidence_score"),
        (ValidationConfig(max_turns=10**400), "turns"),
        (ValidationConfig(nfc="maybe"), "nfc"),  # type: ignore[arg-type]
    ],
    ids=["crossed", "negative", "type", "no-speakers", "score", "nan", "huge", "word"],
)
def test_settings_that_cannot_work_are_a_usage_problem(config: ValidationConfig, message: str) -> None:
    with pytest.raises(UsageProblem, match=message):
        validate(TURNS, config=config)


def test_a_config_file_may_be_flat_or_nested(put: Put) -> None:
    flat = put("flat.yaml", b"allowed_tools: [a]\nrequire_tool_input: false\nconfidence_score_max: 5\nmax_turns: 3\n")
    nested = put("nested.yaml", b"tools: {allowed_tools: [a], require_tool_input: no way}\n")
    assert load_config(flat) == ValidationConfig(
        allowed_tools=["a"], require_tool_input=False, confidence_score_max=5.0, max_turns=3
    )
    with pytest.raises(UsageProblem, match="require_tool_input"):
        load_config(nested)


def test_nested_groups_mean_the_flat_settings(put: Put) -> None:
    path = put(
        "c.yaml",
        b"tools:\n  allowed_tools: [a, b]\n  require_tool_output: false\nconfidence_score:\n  min_value: -1\n  max_value: 10\n",
    )
    expected = ValidationConfig(
        allowed_tools=["a", "b"], require_tool_output=False, confidence_score_min=-1.0, confidence_score_max=10.0
    )
    assert load_config(path) == expected


@pytest.mark.parametrize("content", [b"", b"{}", b"# nothing\n"])
def test_an_empty_config_file_is_the_defaults(content: bytes, put: Put) -> None:
    assert load_config(put("c.yaml", content)) == ValidationConfig()


def test_a_config_file_may_be_json(put: Put) -> None:
    assert load_config(put("c.json", {"max_turns": 7})).max_turns == 7


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"max_turn: 3\n", r"unknown key 'max_turn' \(did you mean 'max_turns'\?\)"),
        (b"tools: {allowed: []}\n", r"unknown key 'tools.allowed' \(did you mean 'allowed_tools'\?\)"),
        (b"tools: {qqq: 1}\nzzz: 2\n", "unknown key 'tools.qqq'; unknown key 'zzz'"),
        (b"max_turns: three\n", "max_turns"),
        (b"max_turns: 1\nmax_turns: 2\n", "line 2"),
        (b"- a\n", "mapping"),
        (b"a: [\n", "line"),
        (b"min_turns: 5\nmax_turns: 1\n", "turns"),
        (b"tools: 5\n", "unknown key 'tools'"),
    ],
)
def test_a_bad_config_file_is_a_usage_problem_that_says_where(content: bytes, message: str, put: Put) -> None:
    with pytest.raises(UsageProblem, match=message):
        load_config(put("c.yaml", content))


def test_a_config_file_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadable):
        load_config(tmp_path / "none.yaml")
