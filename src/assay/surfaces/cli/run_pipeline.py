"""Finished runs, told to a pipeline."""

from collections.abc import Callable, Iterable, Sequence

from assay.presentation.decisions import CheckedRun
from assay.surfaces.cli.pipeline import PipelineOptions, append_summary
from assay.surfaces.reporters.github import run_annotations
from assay.surfaces.reporters.junit import run_junit


def tell_runs(pipeline: PipelineOptions, runs: Sequence[CheckedRun], *, summary: Callable[[], Iterable[str]]) -> None:
    """Write what is wanted: JUnit, annotations, and the Markdown of `summary` into the summary of the job."""
    if pipeline.junit is not None:
        pipeline.write_junit(run_junit(runs))
    if pipeline.is_github:
        pipeline.annotate(run_annotations(runs))
        append_summary(summary())
