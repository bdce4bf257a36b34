"""What a log of Inspect says before its samples: who answered what, and how many samples there should be."""

from typing import Any

import msgspec

from assay.core.errors import SourceUnreadable
from assay.datasets.converters.columns import RowRefused
from assay.datasets.imports.inputs import ImportSource
from assay.datasets.imports.items import Row
from assay.datasets.imports.report import ImportState
from assay.integrations.importers.lazy_object import LazyObject
from assay.integrations.importers.shapes import mapping, sequence

_PARAMETERS = ("temperature", "top_p", "max_tokens", "seed", "frequency_penalty", "presence_penalty", "reasoning_effort")
_FINISHED = "success"


class InspectLogHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What all samples of a log share."""

    dataset: str
    candidate: str
    scorers: tuple[str, ...]
    sample_ids: tuple[str, ...]
    scores_errors: bool
    """The log's own metrics count samples that ended with an error."""
    status: str
    """How the evaluation ended, in Inspect's word: `started` where it never did."""
    planned: int
    """Samples that were to be evaluated, each epoch counted; 0 where the log does not say it."""


def read_header(document: LazyObject, reading: ImportState) -> InspectLogHeader:
    """What a log says of all its samples; raises SourceUnreadable where it is none."""
    try:
        spec = document.mapping("eval")
        reading.note_run(
            version=str((spec.get("packages") or {}).get("inspect_ai") or ""), created_at=str(spec.get("created") or "")
        )
        settings = {**(document.mapping("plan").get("config") or {}), **(spec.get("model_generate_config") or {})}
        parameters = {name: settings[name] for name in _PARAMETERS if settings.get(name) is not None}
        reading.note_parameters(str(spec["model"]), parameters)
        _leave_out_of(spec, document, reading)
        dataset = spec.get("dataset") or {}
        return InspectLogHeader(
            dataset=str(dataset.get("name") or spec["task"]),
            candidate=str(spec["model"]),
            scorers=tuple(str(scorer["name"]) for scorer in spec.get("scorers") or ()),
            sample_ids=tuple(map(str, dataset.get("sample_ids") or ())),
            scores_errors=bool((spec.get("config") or {}).get("score_on_error")),
            status=str(document.get("status") or "started"),
            planned=_planned(spec, mapping(document.get("results"))),
        )
    except (RowRefused, KeyError, TypeError, AttributeError) as problem:
        raise SourceUnreadable(f"this is no log of Inspect: {problem}", hint="name the format: --from") from problem


def note_missing(source: ImportSource, log: InspectLogHeader, reading: ImportState) -> None:
    """Say that a log is not whole, after all its samples were read."""
    held = source.tally.read
    if log.status == _FINISHED and held >= log.planned:
        return
    counted = f"holds {held:,} of {log.planned:,} samples" if log.planned else f"holds {held:,} samples of an unknown number"
    reading.incomplete.append(f"{source.path.name} {counted}, and its status is {log.status}")
    reading.leave_out("sample that the log does not hold", max(0, log.planned - held))


def _leave_out_of(spec: Row, document: LazyObject, reading: ImportState) -> None:
    steps = [str(step.get("solver")) for step in document.mapping("plan").get("steps") or () if step.get("solver") != "generate"]
    for step in steps:
        reading.leave_out(f"solver {step}")
    for name in ("model_roles", "sandbox", "task_args_passed"):
        reading.leave_out(f"eval.{name}", int(bool(spec.get(name))))
    for name in ("reductions", "log_updates", "error"):
        reading.leave_out(f"log {name}", int(name in document))


def _planned(spec: Row, results: Row) -> int:
    """Samples times epochs; the dataset's own size counts only where the evaluation was not limited to a part of it."""
    if total := _count(results.get("total_samples")):
        return total
    dataset, config = mapping(spec.get("dataset")), mapping(spec.get("config"))
    chosen = len(sequence(dataset.get("sample_ids")))
    is_part = config.get("limit") is not None or config.get("sample_id") is not None
    return max(chosen, 0 if is_part else _count(dataset.get("samples"))) * (_count(config.get("epochs")) or 1)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 53 else 0
