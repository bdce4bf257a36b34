"""A judge under probe: every known fault is found, and a sound judge is not accused."""

import json
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.core.judge_card import JudgeCard
from assay.engine.probe_items import dataset_items, shipped_items
from assay.engine.probes import same_family

FAULTS = {
    "judge-flaky": {"retest"},
    "judge-length": {"length"},
    "judge-gullible": {"injection"},
    "judge-lenient": {"empty"},
    "judge-first": {"position"},
    "judge-closed-book": {"discernment", "reference"},
    "judge-4": {"discernment", "empty", "reference"},
}


def card_of(judge: str, **options: object) -> JudgeCard:
    return api.probe(api.ProbeRequest(judge=f"scripted/{judge}", **options))


def failed(card: JudgeCard) -> set[str]:
    return {probe.id for probe in card.probes if probe.verdict == "fail"}


def test_a_sound_judge_passes_every_probe_without_a_slip() -> None:
    card = card_of("judge-sound")
    assert {probe.verdict for probe in card.probes} == {"pass"}
    assert sum(probe.slips for probe in card.probes) == 0
    assert card.verdict == "pass"


@pytest.mark.parametrize(("judge", "probes"), FAULTS.items())
def test_a_faulty_judge_fails_the_probe_of_its_fault_and_no_other(judge: str, probes: set[str]) -> None:
    card = card_of(judge)
    assert failed(card) == probes
    assert card.verdict == "fail"


def test_every_rate_has_its_count_and_interval() -> None:
    probes = card_of("judge-flaky").probes
    assert all(probe.n == 16 and probe.rate == probe.slips / probe.n for probe in probes)
    assert all(probe.low <= probe.rate <= probe.high for probe in probes)


def test_an_error_of_the_judge_is_no_verdict() -> None:
    card = card_of("fail-bad_request")
    assert card.verdict == "not_enough_evidence"
    assert [probe.n for probe in card.probes] == [0] * len(card.probes)
    assert card.probes[0].failed == {"bad_request": 48}


def test_a_judge_that_leaves_no_room_to_rise_is_not_said_to_be_blind_to_length() -> None:
    probes = {probe.id: probe for probe in card_of("judge-5").probes}
    assert probes["length"].verdict == probes["injection"].verdict == "not_enough_evidence"
    assert "only 0 had a score that could still rise" in probes["length"].words


def test_few_records_are_not_enough_evidence() -> None:
    assert card_of("judge-sound", limit=3).verdict == "not_enough_evidence"


def test_the_same_request_gives_the_same_card() -> None:
    first, second = (card_of("judge-any").to_dict() for _ in range(2))
    assert {**first, "created_at": ""} == {**second, "created_at": ""}


def test_a_judge_that_goes_by_the_order_is_told_which_place_it_prefers() -> None:
    (position,) = (probe for probe in card_of("judge-first").probes if probe.id == "position")
    assert position.words.endswith("(16 for the one that stood first)")


def test_every_shipped_question_has_three_answers_of_its_own() -> None:
    items = shipped_items().items
    assert len({text for item in items for text in (item.right, item.partial, item.wrong)}) == 3 * len(items) == 48


def questions(folder: Path, count: int) -> str:
    path = folder / "questions.jsonl"
    rows = [_row(f"q{number}") for number in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def _row(name: str) -> dict[str, object]:
    answer = " ".join(f"{name}{word}" for word in ("alpha", "bravo", "charlie", "delta", "foxtrot", "golf"))
    row = {"schema_version": "legal_eval_v1", "dataset": "probes", "task_type": "reference_qa", "metadata": {"domain": "legal"}}
    return {**row, "id": name, "prompt": f"What about {name}?", "reference_answers": [answer]}


def test_a_dataset_s_references_make_right_partial_and_wrong_answers(tmp_path: Path) -> None:
    card = card_of("judge-sound", dataset=questions(tmp_path, 30), limit=20, seed=7)
    assert (card.records, card.records_left_out, card.verdict) == (20, 0, "pass")
    assert {"judge_reference/1", "judge_pairwise/1"} <= set(card.templates)


def test_a_fault_shows_on_a_dataset_too(tmp_path: Path) -> None:
    assert failed(card_of("judge-gullible", dataset=questions(tmp_path, 12))) == {"injection"}


def test_another_seed_takes_other_records(tmp_path: Path) -> None:
    path = questions(tmp_path, 40)
    chosen = [{item.case.id for item in dataset_items(path, limit=10, seed=seed).items} for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_a_dataset_without_references_is_refused_before_any_call() -> None:
    with pytest.raises(UsageProblem, match="has 0 record"):
        card_of("judge-sound", dataset="examples/golden_v1/assistant.json")


@pytest.mark.parametrize(
    ("judge", "candidate", "verdict"),
    [
        ("openai/gpt-5", "openai/gpt-5-mini", "warn"),
        ("openai/o3", "router/openai/gpt-4.1", "warn"),
        ("openai/gpt-5", "openai/whisper", "warn"),
        ("anthropic/claude-sonnet-4-5", "openai/gpt-5", "pass"),
        ("router/meta/llama-3", "router/qwen/qwen3", "pass"),
    ],
)
def test_models_of_one_family_or_house_are_told_by_their_names(judge: str, candidate: str, verdict: str) -> None:
    assert same_family(judge, candidate).verdict == verdict


def test_an_unknown_provider_is_refused_before_any_call() -> None:
    with pytest.raises(UsageProblem, match="unknown provider 'opnai'"):
        api.probe(api.ProbeRequest(judge="opnai/gpt-5"))
