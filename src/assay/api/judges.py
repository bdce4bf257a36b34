"""Judges: labels by people, calibration against them, and probes."""

import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from assay.api.stored_runs import sealed_folder
from assay.core.errors import UsageProblem
from assay.core.judge_card import JudgeCard
from assay.core.runs import RUNS_DIR
from assay.engine.judge_quality.calibration import Calibration
from assay.engine.judge_quality.calibration import calibrate as calibrate_run
from assay.engine.judge_quality.label_matching import (
    AnswerLine,
    KeptLabel,
    LabelInput,
    LabelSample,
    draw_sample,
    human_labels,
    labels_of,
    sample_lines,
    sample_table,
)
from assay.engine.judge_quality.label_matching import keep_label as keep_label_line
from assay.engine.judge_quality.label_matching import kept_labels as read_kept_labels
from assay.engine.judge_quality.labels import read_labels
from assay.engine.judge_quality.probe import ProbeRequest, probe_judge
from assay.engine.judge_quality.prompt_trial import PromptTrial, PromptTrialRequest
from assay.engine.judge_quality.prompt_trial import try_prompt as try_judge_prompt
from assay.engine.readers.record_search import row_at
from assay.engine.readers.run_reader import RunReader
from assay.engine.records.run_counters import Snapshot
from assay.store.files import KeptCards, read_cards
from assay.store.files import keep_card as store_card
from assay.store.published_run import PublishedRun, open_run_folder

__all__ = [
    "calibrate",
    "filled_labels",
    "keep_card",
    "keep_label",
    "kept_cards",
    "kept_labels",
    "label_sample",
    "label_text",
    "probe",
    "try_prompt",
]


_CHOSEN = (
    "people chose these records and saw what the judge says: for shares over the whole run, label a random sample that "
    "`assay label` draws"
)


def label_sample(
    run_name: str, count: int, *, runs_dir: str | Path = RUNS_DIR, seed: int = 0, shows_judge: bool = False
) -> LabelSample:
    """Draw a random sample of a finished run's answers for people to label, in the proportions of the run."""
    return draw_sample(sealed_folder(run_name, runs_dir), count, seed=seed, shows_judge=shows_judge)


def label_text(sample: LabelSample, *, is_csv: bool = False) -> str:
    """Format the sample as a file to fill in."""
    return "".join(sample_table(sample) if is_csv else sample_lines(sample))


def calibrate(
    run_name: str, labels: str | Path | None = None, *, runs_dir: str | Path = RUNS_DIR, slices: tuple[str, ...] | None = None
) -> Calibration:
    """Compare the judge of a finished run with the labels of a file, or with those that people gave on the pages.

    Raises PlanProblems with every line that is wrong.
    """
    run = sealed_folder(run_name, runs_dir)
    if labels is None:
        return _calibrate_kept(run, slices)
    read = read_labels(labels)
    if not read.labels:
        raise UsageProblem(
            f"none of the {read.empty:,} rows of '{labels}' is filled in", hint="fill in `passed` or `score`, or both"
        )
    return calibrate_run(run, read.labels, slices=slices)


def _calibrate_kept(run: PublishedRun, slices: tuple[str, ...] | None) -> Calibration:
    kept = read_kept_labels(run)
    if not kept:
        raise UsageProblem(
            f"run '{run.path.name}' has no labels yet",
            hint="label answers on the pages of `assay serve`, or draw a sample with `assay label`",
        )
    found = calibrate_run(run, human_labels(kept), slices=slices)
    return msgspec.structs.replace(found, notes=(*found.notes, _CHOSEN))


def keep_label(run: RunReader, record_index: int, opinion: LabelInput) -> KeptLabel:
    """Store a person's label of an answer of a finished run; raises UsageProblem, RunNotFound."""
    # By way of the index, since the page knows the record by its place.
    row = row_at(run, record_index)
    at = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    # By way of plain values: members that the line has not set take the defaults of AnswerLine.
    line = msgspec.convert(msgspec.to_builtins(run.line_of(row)), AnswerLine)
    return keep_label_line(open_run_folder(run.folders.sealed), line, opinion, at=at)


def filled_labels(run: RunReader, path: str | Path) -> tuple[KeptLabel, ...]:
    """Read the labels of a file that `assay label` wrote and people filled in, each for the answer that it is about.

    Raises PlanProblems with every line that is wrong, and with every label of an answer that the run does not have.
    """
    return labels_of(run.predictions_as(AnswerLine), read_labels(path).labels, path=str(path))


def kept_labels(run: RunReader) -> tuple[KeptLabel, ...]:
    """Return people's labels of the answers of a run: each person's last one for each answer."""
    return read_kept_labels(open_run_folder(run.folders.sealed)) if run.folders.is_sealed else ()


def probe(
    request: ProbeRequest, *, watch: Callable[[Snapshot], None] | None = None, environ: Mapping[str, str] | None = None
) -> JudgeCard:
    """Find out whether a judge is sound; raises UsageProblem, with everything that is wrong, before any call."""
    return probe_judge(request, environ=os.environ if environ is None else environ, clock=time.time, watch=watch)


def try_prompt(request: PromptTrialRequest, *, environ: Mapping[str, str] | None = None) -> PromptTrial:
    """Try a judge's prompt on one record; raises UsageProblem, with everything that is wrong, before any call."""
    return try_judge_prompt(request, environ=os.environ if environ is None else environ, clock=time.time)


def keep_card(card: JudgeCard, runs_dir: str | Path) -> str:
    """Store a judge card with the runs, where the pages of a server show it; raises StoreUnavailable."""
    return store_card(Path(runs_dir), card)


def kept_cards(runs_dir: str | Path) -> KeptCards:
    """Return the judge cards that are stored with runs, the newest first."""
    return read_cards(Path(runs_dir))
