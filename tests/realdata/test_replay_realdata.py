"""Real runs, replayed: a published benchmark, golden datasets and recorded conversations, without a model.

The folder comes from ASSAY_REALDATA, without it these tests are skipped. Judges answer from recordings: the real flow of
every case is driven once, and what a judge said is noted under the hash of the messages that ask for it.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from assay import Case, RunRequest, RunResult, ValidationConfig, open_run, run, validate
from assay.api import convert_benchmark, rescore, verify
from assay.api import replay as recomputed
from assay.core.model_call import ModelRequest, Reply
from assay.core.outcome import GradingFailure
from assay.core.settings import ProfileId
from assay.golden import EvalRun, EvalRunMetrics
from assay.grading import GradingSettings, start
from assay.models import messages_sha256
from tests.realdata.test_validate_realdata import CONVERSATIONS, GOLDEN, is_good

FOLDER = Path(os.environ.get("ASSAY_REALDATA", "/nonexistent"))
BENCHMARK = FOLDER / "eu_legal_benchmark"
PUBLISHED = next(BENCHMARK.glob("run_*"), BENCHMARK)
AS_RUN = PUBLISHED / "merged_legal_eval_v1.as_run.jsonl"
"""The rows as they were run, with their older weights."""
PUBLISHED_SUMS = {
    "bedrock_claude_opus_4_6": 66.7989,
    "bedrock_claude_sonnet_4_5": 58.8444,
    "bedrock_claude_haiku_4_5": 43.5726,
    "bedrock_gpt_oss_120b": 51.1829,
    "mistral_large_latest": 52.3677,
    "magistral_medium_latest": 45.3568,
    "vercel_openai_gpt_5_2": 50.7767,
    "vercel_xai_grok_4_1_fast_reasoning": 59.6081,
}
"""Score sums of the published run without its only APEX row, whose judgments are not kept."""
OLDER_RULES: dict[str, ProfileId] = {"mcq": "lexam_mcq", "reference_qa": "lexam_open", "rubric_qa": "prbench_normalized"}
"""The profile that scores each task as the published run did, with its treatment of failures."""

Row = dict[str, Any]
Says = Callable[[Case, ModelRequest], str | None]
"""What a judge said when it was asked about a case; None where no reply was kept."""

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="ASSAY_REALDATA names no folder")
each_golden = pytest.mark.parametrize("path", [path for path in GOLDEN if is_good(path)], ids=lambda path: path.stem)


def rows_in(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_recording(path: Path, cases: Iterable[Case], answers: dict[str, str], says: Says) -> Path:
    lines = (line for case in cases for line in recorded_lines(case, answers[case.id], says))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def recorded_lines(case: Case, answer: str, says: Says) -> Iterator[Row]:
    flow = start(case, GradingSettings(candidate="candidate", judges=("judge",)))
    next(flow)
    replies: list[str | None] = [answer]
    try:
        while None not in replies:
            asks = flow.send(tuple(Reply(text=text) for text in replies if text is not None))
            replies = [says(case, ask) for ask in asks]
            for ask, text in zip(asks, replies, strict=True):
                if text is not None:
                    yield {"messages_sha256": messages_sha256(ask.messages), "reply": {"text": text}}
    except (StopIteration, GradingFailure):
        return


# The published benchmark


class Replay:
    """One candidate of the published run: what was kept of it, and the run that replays it."""

    def __init__(self, candidate: str, folder: Path) -> None:
        self.published_sum = PUBLISHED_SUMS[candidate]
        self.total: float = json.loads((PUBLISHED / "summary.json").read_bytes())["models"][candidate]["score_sum"]
        self.answers = {row["example_id"]: row["response_text"] for row in of(candidate, "responses.jsonl")}
        self.judgments = {row["example_id"]: row for row in of(candidate, "judgments.jsonl")}
        # Rows that the candidate never answered are left out.
        self.rows = [row for row in rows_in(AS_RUN) if row["id"] in self.answers]
        self.result = self._run(folder, self.rows)
        self.predictions = {line["record_id"]: line for line in open_run(self.result.run_dir).predictions()}
        self.older = dict(scored for task in OLDER_RULES for scored in self._older_scores(folder / task, task))

    def _run(self, folder: Path, rows: list[Row]) -> RunResult:
        dataset, answers = folder / "rows.jsonl", folder / "answers.json"
        dataset.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        answers.write_text(json.dumps({row["id"]: self.answers[row["id"]] for row in rows}), encoding="utf-8")
        judged = [case for case in validate(dataset).cases if case.task != "mcq"]
        recording = write_recording(folder / "judge.jsonl", judged, self.answers, self._stored_reply())
        judge = {"judge": f"replay/{recording}"} if judged else {}
        (finished,) = run(dataset, responses=str(answers), runs_dir=str(folder / "runs"), **judge)
        return finished

    def _stored_reply(self) -> Says:
        rows = self.judgments.values()
        kept = {(row["example_id"], call["criterion_id"]): call["raw_text"] for row in rows for call in row["calls"] or ()}

        def says(case: Case, ask: ModelRequest) -> str | None:
            raw = kept.get((case.id, ask.call_id.split(":")[1] if case.task == "rubric" else None))
            return None if raw is None else in_our_words(raw, ask)

        return says

    def _older_scores(self, folder: Path, task: str) -> Iterator[tuple[str, float]]:
        """The records of one task by the older rules, from the artifacts of a run alone."""
        folder.mkdir()
        finished = self._run(folder, [row for row in self.rows if row["task_type"] == task])
        rescored = rescore(finished.run_dir, profile=OLDER_RULES[task], compat=True, run_id="older")
        assert (verify(rescored.run_dir), verify(finished.run_dir), recomputed(rescored.run_dir)) == ([], [], [])
        for line in open_run(rescored.run_dir).predictions():
            assert line["profile_unscored"] is None
            yield line["record_id"], line["profile_score"]

    def lost(self) -> list[str]:
        """Records for which some reply of a judge was not kept, because the call had failed."""
        needed = {row["id"]: len(row.get("rubric") or [0]) for row in self.rows if row["task_type"] != "mcq"}
        kept = {record_id: len(row["calls"] or ()) for record_id, row in self.judgments.items()}
        return [record_id for record_id, count in needed.items() if kept.get(record_id, 0) < count]


def of(candidate: str, name: str) -> list[Row]:
    return [row for row in rows_in(PUBLISHED / name) if row["candidate_name"] == candidate]


def in_our_words(raw: str, ask: ModelRequest) -> str:
    """The reply with its two members named as the ask wants them; whatever is broken in it stays broken."""
    assert ask.reply_schema is not None
    members = ask.reply_schema["properties"]
    (value,) = (name for name, member in members.items() if member["type"] != "string")
    (reason,) = (name for name, member in members.items() if member["type"] == "string" and "enum" not in member)
    words = {"0": "false", "1": "true"} if members[value]["type"] == "boolean" else {}
    said = re.sub(
        r'\A\{\s*"(?:grade|score)": *([0-9.]+)(?:, *"pass": *\w+)?', lambda head: f'{{"{value}": {words.get(head[1], head[1])}', raw
    )
    return re.sub(r'"(reasoning|rationale|explanation)":', f'"{reason}":', said, count=1)


@pytest.fixture(scope="module", params=PUBLISHED_SUMS)
def replay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    return Replay(request.param, tmp_path_factory.mktemp("replay"))


def test_the_older_rules_give_the_published_sum(replay: Replay) -> None:
    total = fsum(replay.older.values())
    assert len(replay.older) == len(replay.rows)
    assert total == pytest.approx(fsum(row["score"] for row in replay.judgments.values()), abs=1e-9)
    assert total == pytest.approx(replay.published_sum, abs=1e-4)


def test_the_older_rules_give_every_published_score(replay: Replay) -> None:
    found = {record_id: score for record_id, score in replay.older.items() if record_id in replay.judgments}
    assert found == pytest.approx({record_id: row["score"] for record_id, row in replay.judgments.items()}, abs=1e-9)


def test_what_the_published_total_has_besides_is_the_row_without_judgments(replay: Replay) -> None:
    assert 0 <= replay.total - replay.published_sum <= 1


def test_every_choice_is_graded_as_published(replay: Replay) -> None:
    choices = {record_id: row["score"] for record_id, row in replay.judgments.items() if row["judge_mode"] == "mcq"}
    assert {record_id: replay.predictions[record_id]["score"] for record_id in choices} == choices


def test_a_record_with_a_lost_reply_has_no_score_under_our_rules(replay: Replay) -> None:
    lost = replay.lost()
    found = {(line["score"], line["passed"], line["status"]) for line in map(replay.predictions.__getitem__, lost)}
    assert found <= {(None, None, "evaluation_error")}
    assert (replay.result.metrics["n_unscored"], sum(replay.result.metrics["errors"].values())) == (len(lost), len(lost))


def test_a_rubric_whose_replies_can_all_be_read_has_the_published_score(replay: Replay) -> None:
    whole = {key: row for key, row in replay.judgments.items() if row["judge_mode"] == "rubric" and not row["parse_error"]}
    scored = {key: replay.predictions[key]["score"] for key in whole if replay.predictions[key]["score"] is not None}
    assert len(scored) > 20
    assert scored == pytest.approx({key: whole[key]["score"] for key in scored}, abs=1e-9)


def test_a_reference_score_is_the_published_one_in_tenths(replay: Replay) -> None:
    read = [row for row in replay.judgments.values() if row["judge_mode"] == "reference" and not row["parse_error"]]
    ours = [replay.predictions[row["example_id"]]["score"] for row in read]
    assert ours == pytest.approx([row["score"] for row in read], abs=0.05 + 1e-9)
    assert ours == [round(score, 1) for score in ours]


def test_a_reply_that_breaks_off_is_salvaged_and_says_so(replay: Replay) -> None:
    cut = [key for key, row in replay.judgments.items() if any(call["parse_error"] for call in row["calls"] or ())]
    scored = [line for line in map(replay.predictions.__getitem__, cut) if line["score"] is not None]
    assert [line["record_id"] for line in scored if not {"asked_again", "salvaged"} <= set(line["flags"])] == []


def test_a_replayed_run_is_sealed_like_any_other(replay: Replay) -> None:
    assert verify(replay.result.run_dir) == []
    assert (replay.result.counts.total_records, replay.result.is_finished) == (len(replay.rows), True)


def test_the_weights_that_the_classes_name_differ_from_the_older_ones() -> None:
    older = {row["id"]: row["rubric"] for row in rows_in(AS_RUN) if "rubric" in row}
    source = str(BENCHMARK / "curated" / "prbench_legal_hard_europe.jsonl")
    ours = {row["id"]: row["rubric"] for row in convert_benchmark("prbench", [source], id_style="upstream").rows}
    pairs = [(old["weight"], new["weight"]) for row_id in ours for old, new in zip(older[row_id], ours[row_id], strict=True)]
    assert (len(pairs), sum(old != new for old, new in pairs), sum(old * new < 0 for old, new in pairs)) == (721, 73, 7)


# Golden datasets


def golden_run(path: Path, folder: Path, scores: list[int | None], **gates: float) -> tuple[RunResult, EvalRun]:
    """The cases of a dataset with these scores in order; None is a reply that the judge never gave."""
    cases = list(validate(path, "golden_v1").cases)
    given = {case.id: score for case, score in zip(cases, scores, strict=True)}
    answers = {case.id: f"An answer to {case.id}." for case in cases}

    def says(case: Case, _: ModelRequest) -> str | None:
        score = given[case.id]
        return None if score is None else json.dumps({"score": score, "justification": "As the script says."})

    recording = write_recording(folder / "judge.jsonl", cases, answers, says)
    (folder / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    (finished,) = run(
        path, responses=str(folder / "answers.json"), judge=f"replay/{recording}", runs_dir=str(folder / "runs"), **gates
    )
    return finished, EvalRun.model_validate_json((Path(finished.run_dir) / "eval_results.json").read_bytes())


@each_golden
def test_a_golden_dataset_passes_at_its_bounds_and_not_below(path: Path, tmp_path: Path) -> None:
    n = validate(path, "golden_v1").counts.total_records
    passing = -(-4 * n // 5)
    scores: list[int | None] = [4] * passing + [1] * (n - passing)
    gates = {"pass_rate": passing / n, "min_score": (4 * passing + n - passing) / n}
    finished, written = golden_run(path, tmp_path, scores, **gates)
    assert (finished.gate.passed, written.metrics.overall_passed, written.metrics.total_cases) == (True, True, n)
    missed, written = golden_run(path, tmp_path, [3, *scores[1:]], **gates)
    assert (missed.gate.passed, written.metrics.overall_passed) == (False, False)
    assert any(reason.startswith("pass rate") for reason in missed.gate.reasons)


@each_golden
def test_errors_leave_the_denominators_of_a_golden_dataset_and_are_capped(path: Path, tmp_path: Path) -> None:
    n = validate(path, "golden_v1").counts.total_records
    scores: list[int | None] = [None, *[5] * (n - 1)]
    finished, written = golden_run(path, tmp_path, scores, pass_rate=0.8, min_score=3.5, max_error_rate=1 / n)
    assert (finished.gate.passed, finished.metrics["pass_rate"], finished.metrics["n_unscored"]) == (True, 1.0, 1)
    assert written.metrics == EvalRunMetrics.from_results(written.results, written.parameters)
    assert (written.metrics.error_cases, written.results[0].score, bool(written.results[0].error)) == (1, None, True)
    capped, _ = golden_run(path, tmp_path, scores, pass_rate=0.8, min_score=3.5, max_error_rate=0.9 / n)
    assert (capped.gate.passed, len(capped.gate.reasons)) == (False, 1)


# Recorded conversations


def test_every_conversation_is_valid_and_each_of_its_replies_is_judged(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("allow_empty_messages: true\n")
    finished = conversation_run(CONVERSATIONS, tmp_path, config=str(settings))
    spoken = sum(len(list(validate(path, config=ValidationConfig(allow_empty_messages=True)).cases)) for path in CONVERSATIONS)
    assert (spoken, finished.counts.invalid_records, finished.counts.failed_records) == (101, 0, 0)
    # After eight of them only tools are called, which counts as a reply too.
    assert finished.counts.evaluated_records == 754 + 8


def test_conversations_without_empty_replies_replay_to_their_end(tmp_path: Path) -> None:
    whole = [path for path in CONVERSATIONS if validate(path).is_valid]
    finished = conversation_run(whole, tmp_path)
    assert (finished.state, finished.counts.failed_records, finished.metrics["raw_score_mean"]) == ("completed", 0, 4.0)
    lines = list(open_run(finished.run_dir).predictions())
    assert Counter(line["dataset"] for line in lines).total() == finished.counts.total_records
    assert [line["record_id"] for line in lines if not line["model_response"] or "prefilled" not in line["flags"]] == []


def conversation_run(paths: list[Path], folder: Path, *, config: str = "") -> RunResult:
    (finished,) = run(
        RunRequest(
            datasets=tuple(map(str, paths)),
            response_source="part_of_conversation",
            judges=("scripted/judge-4",),
            on_invalid="skip",
            config=config,
            runs_dir=str(folder / "runs"),
        )
    )
    return finished
