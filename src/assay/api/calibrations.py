"""Judges beside people: labels out, labels in, and what they say."""

from pathlib import Path

from assay.api.runs import RUNS_DIR, sealed_folder
from assay.core.errors import UsageProblem
from assay.engine.calibration import Calibration
from assay.engine.calibration import calibrate as calibrate_run
from assay.engine.labelling import LabelSample, draw_sample, sample_lines, sample_table
from assay.engine.labels import read_labels

__all__ = ["Calibration", "LabelSample", "calibrate", "label_sample", "label_text"]


def label_sample(
    run_name: str, count: int, *, runs_dir: str | Path = RUNS_DIR, seed: int = 0, shows_judge: bool = False
) -> LabelSample:
    """A random sample of a finished run's answers for people to label, in the proportions of the run."""
    return draw_sample(sealed_folder(run_name, runs_dir), count, seed=seed, shows_judge=shows_judge)


def label_text(sample: LabelSample, *, is_csv: bool = False) -> str:
    """The sample as a file to fill in."""
    return "".join(sample_table(sample) if is_csv else sample_lines(sample))


def calibrate(
    run_name: str, labels: str | Path, *, runs_dir: str | Path = RUNS_DIR, slices: tuple[str, ...] | None = None
) -> Calibration:
    """The judge of a finished run against the labels of a file; raises PlanProblems with every line that is wrong."""
    run, read = sealed_folder(run_name, runs_dir), read_labels(labels)
    if not read.labels:
        raise UsageProblem(
            f"none of the {read.empty:,} rows of '{labels}' is filled in", hint="fill in `passed` or `score`, or both"
        )
    return calibrate_run(run, read.labels, slices=slices)
