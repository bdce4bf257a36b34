"""Samples of a run's answers for people to label, stratified by dataset."""

import csv
import io
import random
from collections.abc import Iterator

import msgspec

from assay.core.artifact_lines import PredictionLine
from assay.core.canonical import JsonObject
from assay.core.case import Case
from assay.core.errors import UsageProblem
from assay.engine.judge_quality.label_matching import HashedPrediction
from assay.engine.judge_quality.labels import digest_of, guarded
from assay.grading.transcript import context_text, grading_text, reference_text, task_text
from assay.store.published_run import PublishedRun

COLUMNS = (
    "record_id", "dataset", "sample", "answer_sha256", "task", "context", "choices", "reference", "grading", "criteria",
    "answer", "judge_passed", "judge_score", "judge_reason", "rater", "passed", "score", "note",
)  # fmt: skip
"""Columns of the file; the last four are for the rater to fill in."""


class LabelSample(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of answers."""

    rows: tuple[JsonObject, ...]
    strata: dict[str, tuple[int, int]]
    """By stratum, the records in the run and those drawn."""


def draw_sample(run: PublishedRun, count: int, *, seed: int = 0, shows_judge: bool = False) -> LabelSample:
    """A random sample of the answers that a judge graded, with the run's share of each dataset; raises UsageProblem without any.

    Equal shares keep every estimate that rests on the labels unbiased without weights; shares of the judge's verdicts would not,
    because how often it is wrong about good answers must not depend on what it said. What the judge said is left out unless asked
    for: who has read it tends to agree.
    """
    strata: dict[str, list[int]] = {}
    for number, prediction in enumerate(run.typed_lines("predictions.jsonl", HashedPrediction)):
        if prediction.is_judged:
            strata.setdefault(prediction.dataset, []).append(number)
    total = sum(map(len, strata.values()))
    if not total:
        raise UsageProblem(
            f"no judge graded an answer of run '{run.manifest.run_id}', so that there is nothing to label",
            hint="multiple choice and tool calls are graded by a rule; labels say how good a judge is",
        )
    chance = random.Random(seed)
    taken = _allotted({name: len(lines) for name, lines in strata.items()}, min(count, total))
    drawn = [line for name in sorted(strata) for line in chance.sample(strata[name], taken[name])]
    chance.shuffle(drawn)
    rows = _rows(run, drawn, shows_judge=shows_judge)
    return LabelSample(rows=tuple(rows), strata={name: (len(strata[name]), taken[name]) for name in sorted(strata)})


def _allotted(sizes: dict[str, int], count: int) -> dict[str, int]:
    """Divide `count` in proportion to the sizes, by the largest-remainder method."""
    total = sum(sizes.values())
    shares = {name: divmod(size * count, total) for name, size in sizes.items()}
    taken = {name: whole for name, (whole, _) in shares.items()}
    by_remainder = sorted(shares, key=lambda name: (-shares[name][1], name))
    for name in by_remainder[: count - sum(taken.values())]:
        taken[name] += 1
    return taken


def _rows(run: PublishedRun, lines: list[int], *, shows_judge: bool) -> Iterator[JsonObject]:
    wanted = set(lines)
    found = {number: line for number, line in enumerate(run.typed_lines("predictions.jsonl", PredictionLine)) if number in wanted}
    inputs = _inputs(run, {(line.record_id, line.record_sha256) for line in found.values()})
    for number in lines:
        line = found[number]
        case = inputs.get((line.record_id, line.record_sha256))
        yield {**_asked(case), **_answered(line, shows_judge=shows_judge)}


def _inputs(run: PublishedRun, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], Case]:
    keyed = ((entry["record_id"], entry["record_sha256"], entry["record"]) for entry in run.records())
    return {(name, digest): msgspec.convert(record, Case) for name, digest, record in keyed if (name, digest) in wanted}


def _asked(case: Case | None) -> JsonObject:
    if case is None:
        return {}
    criteria = "\n".join(f"{criterion.weight:+g} {criterion.title}" for criterion in case.criteria)
    choices = "\n".join(f"{choice.id}) {choice.text}" for choice in case.choices)
    reference = ", ".join(case.correct_choice_ids) or reference_text(case)
    shown = {
        "context": context_text(case),
        "choices": choices,
        "reference": reference,
        "grading": grading_text(case),
        "criteria": criteria,
    }
    return {"task": task_text(case), **{name: text for name, text in shown.items() if text}}


def _answered(line: PredictionLine, *, shows_judge: bool) -> JsonObject:
    judge = {"judge_passed": line.passed, "judge_score": line.raw_score, "judge_reason": line.justification}
    return {
        "record_id": line.record_id,
        "dataset": line.dataset,
        "sample": line.sample or 0,
        "answer_sha256": digest_of(line.response_sha256),
        "answer": line.model_response or "",
        **(judge if shows_judge else {}),
        "rater": "",
        "passed": None,
        "score": None,
        "note": "",
    }


def sample_lines(sample: LabelSample) -> Iterator[str]:
    """Return the sample as JSON lines."""
    for row in sample.rows:
        ordered = {name: row[name] for name in COLUMNS if name in row}
        yield msgspec.json.encode(ordered).decode() + "\n"


def sample_table(sample: LabelSample) -> Iterator[str]:
    """Return the sample as CSV for a spreadsheet; no cell is a formula."""
    names = [name for name in COLUMNS if any(name in row for row in sample.rows)]
    for row in ({name: name for name in names}, *sample.rows):
        out = io.StringIO(newline="")
        csv.writer(out).writerow([guarded(_text(row.get(name))) for name in names])
        yield out.getvalue()


def _text(value: object) -> str:
    return "" if value is None else str(value)
