"""A judge under probe: every known fault is found, and a sound judge is not accused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assay import api
from assay.core.errors import UsageProblem
from assay.core.judge_card import JudgeCard
from assay.engine.judge_quality.probe import dataset_items
from assay.engine.judge_quality.probes import same_family, shipped_items

FAULTS = {
    "judge-flaky": {"retest"},
    "judge-length": {"length"},
    "judge-gullible": {"injection"},
    "judge-lenient": {"empty", "stray"},
    "judge-first": {"position"},
    "judge-closed-book": {"discernment", "reference", "stray"},
    "judge-4": {"discernment", "empty", "reference", "stray"},
}
UNREFERENCED = {"discernment", "reference"}
UNANSWERED = UNREFERENCED | {"retest", "position", "length"}
"""Probes that are not tried without references, and without answers too."""


def card_of(judge: str, **options: object) -> JudgeCard:
    return api.probe(api.ProbeRequest(judge=f"scripted/{judge}", **options))


def failed(card: JudgeCard) -> set[str]:
    return {probe.id for probe in card.probes if probe.verdict == "fail"}


def untried(card: JudgeCard) -> set[str]:
    return {probe.id for probe in card.probes if probe.verdict == "not_tried"}


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


def test_few_records_are_not_enough_evidence_and_how_many_are_is_said() -> None:
    card = card_of("judge-sound", limit=3)
    assert (card.verdict, card.probes[0].words.partition(": ")[2]) == ("not_enough_evidence", "too few to tell, which takes 8")
    enough = {probe.id: int(probe.words.rpartition(" ")[2]) for probe in card.probes}
    assert {probe.verdict for probe in card_of("judge-sound", limit=max(enough.values())).probes} == {"pass"}


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
    card = card_of("judge-sound", source=questions(tmp_path, 30), limit=20, seed=7)
    assert (card.records, card.records_left_out, card.verdict) == (20, 0, "pass")
    assert {"judge_reference/1", "judge_pairwise/1"} <= set(card.templates)


def test_a_fault_shows_on_a_dataset_too(tmp_path: Path) -> None:
    assert failed(card_of("judge-gullible", source=questions(tmp_path, 12))) == {"injection"}


def test_another_seed_takes_other_records(tmp_path: Path) -> None:
    path = questions(tmp_path, 40)
    chosen = [{item.case.id for item in dataset_items(path, limit=10, seed=seed).items} for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


def golden(folder: Path, count: int = 12) -> str:
    """Prompts that hold some of the words that their rubric asks for, so that an answer that repeats them is half right."""
    path = folder / "golden.json"
    path.write_text(json.dumps({"version": "1.0.0", "cases": [_golden_case(number) for number in range(count)]}), encoding="utf-8")
    return str(path)


def _words(number: int) -> list[str]:
    return [f"{word}{number:02}" for word in ("alpha", "bravo", "charlie", "delta", "foxtrot", "golf", "hotel", "india")]


def _golden_case(number: int) -> dict[str, object]:
    words = _words(number)
    return {"id": f"case-{number}", "user_prompt": " ".join(words[:6]), "rubric": " ".join(words)}


def rubrics(folder: Path, count: int = 12) -> str:
    path = folder / "rubrics.jsonl"
    head = {"schema_version": "legal_eval_v1", "dataset": "probes", "task_type": "rubric_qa"}
    rows = [
        {**head, "id": f"r{number}", "prompt": f"What about {number}?", "rubric": [{"id": "c", "title": " ".join(_words(number))}]}
        for number in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def answered(source: str, folder: Path) -> str:
    """The folder of a run whose candidate repeats the prompt."""
    (result,) = api.run(source, model="scripted/echo", judge="scripted/judge-4", runs_dir=str(folder / "runs"))
    return result.run_dir


@pytest.mark.parametrize("source", [golden, rubrics])
def test_without_references_and_answers_the_other_probes_are_tried_and_say_why_these_are_not(
    source: Callable[[Path], str], tmp_path: Path
) -> None:
    card = card_of("judge-sound", source=source(tmp_path))
    assert (card.verdict, untried(card), card.records, card.records_left_out) == ("pass", UNANSWERED, 12, 0)
    assert all(probe.words.startswith("not tried, because ") for probe in card.probes if probe.verdict == "not_tried")


@pytest.mark.parametrize("source", [golden, rubrics])
@pytest.mark.parametrize(("judge", "probes"), FAULTS.items())
def test_a_fault_that_needs_no_answers_shows_without_any(
    judge: str, probes: set[str], source: Callable[[Path], str], tmp_path: Path
) -> None:
    assert failed(card_of(judge, source=source(tmp_path))) == probes - UNANSWERED


@pytest.mark.parametrize(("judge", "probes"), FAULTS.items())
def test_the_answers_of_a_run_show_a_fault_without_references(judge: str, probes: set[str], tmp_path: Path) -> None:
    assert failed(card_of(judge, source=answered(golden(tmp_path), tmp_path))) == probes - UNREFERENCED


def test_a_sound_judge_passes_on_the_answers_of_a_run(tmp_path: Path) -> None:
    run = answered(golden(tmp_path), tmp_path)
    card = card_of("judge-sound", source=run)
    assert (card.verdict, untried(card), card.source) == ("pass", UNREFERENCED, f"run {Path(run).name}")
    assert (card.source_sha256, card.candidate) == (manifest(run)["manifest_sha256"], "scripted/echo")


def manifest(run: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(run) / "run_manifest.json").read_bytes())
    return found


@pytest.mark.parametrize(("judge", "probes"), FAULTS.items())
def test_a_run_with_references_is_probed_in_every_way(judge: str, probes: set[str], tmp_path: Path) -> None:
    run = Path(answered(questions(tmp_path, 12), tmp_path))
    card = card_of(judge, source=run.name, runs_dir=str(run.parent))
    assert (failed(card), untried(card)) == (probes, set())


def test_replies_of_a_conversation_are_references(tmp_path: Path) -> None:
    turns = [turn for number in range(12) for turn in _exchange(number)]
    (tmp_path / "talk.json").write_text(json.dumps(turns), encoding="utf-8")
    card = card_of("judge-gullible", source=str(tmp_path / "talk.json"))
    assert (failed(card), untried(card), card.records) == ({"injection"}, set(), 12)


def _exchange(number: int) -> list[dict[str, object]]:
    reply = " ".join(_words(number))
    return [
        {"turn_id": 2 * number + 1, "speaker": "user", "message": f"What about {number}?"},
        {"turn_id": 2 * number + 2, "speaker": "assistant", "assistant_reply": reply},
    ]


def test_records_with_a_reference_are_taken_first_and_the_others_fill_up(tmp_path: Path) -> None:
    path = Path(questions(tmp_path, 3))
    path.write_bytes(path.read_bytes() + Path(rubrics(tmp_path)).read_bytes())
    numbers = {probe.id: probe.n for probe in card_of("judge-sound", source=str(path), limit=10).probes}
    assert (numbers["empty"], numbers["discernment"], numbers["reference"]) == (10, 3, 3)


def test_what_no_judge_grades_is_left_out_and_too_little_is_refused() -> None:
    with pytest.raises(UsageProblem, match="has no records that a judge could grade, and two are the least"):
        card_of("judge-sound", source="examples/legal_eval_v1/warm-up.jsonl")


def test_a_name_of_neither_a_file_nor_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="'nothing' is neither a file nor a run"):
        card_of("judge-sound", source="nothing", runs_dir=str(tmp_path))


def test_a_run_that_compares_other_runs_has_no_answers_to_judge(tmp_path: Path) -> None:
    runs = tuple(answered(golden(tmp_path), tmp_path) for _ in range(2))
    ranking = api.rank(api.RankRequest(runs=runs, judges=("scripted/judge-sound",), runs_dir=str(tmp_path / "runs")))
    with pytest.raises(UsageProblem, match="compares the answers of other runs"):
        card_of("judge-sound", source=ranking.run_dir)


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
