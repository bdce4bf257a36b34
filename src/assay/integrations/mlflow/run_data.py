"""A finished run as MLflow's parameters, metrics and tags; what golden_v1 names has the names of that contract."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from assay import api
from assay.core.manifest import Manifest
from assay.core.number_text import plain_number
from assay.core.settings import gate_limits
from assay.core.summary import (
    AmountSummary,
    GateResult,
    MetricValue,
    PanelSummary,
    PassAtK,
    RankingSummary,
    RepeatSummary,
    SliceSummary,
    Summary,
    ToolMetrics,
)
from assay.presentation.words import NO_VALUE

Json = dict[str, Any]

RUN_TAG = "assay.run_id"
MANIFEST_TAG = "assay.manifest_sha256"
"""Two tags by which a run is found again."""
PARAMETERS = (
    "assistant_model",
    "judge_model",
    "temperature",
    "max_tokens",
    "dataset_version",
    "pass_rate_threshold",
    "score_threshold",
)
METRICS = ("total_cases", "passed_cases", "failed_cases", "error_cases", "pass_rate", "average_score", "overall_passed")
"""golden_v1: EvalRunParameters and EvalRunMetrics; every run has those that are known of it."""
LONGEST_NAME = 250
"""Characters of a metric's name that MLflow takes."""
MAX_TOOLS = 50
"""Tools whose calls become metrics."""
LONGEST_VALUE = 6_000
"""Characters of a parameter that MLflow takes."""
MAX_SLICES = 100
"""Values of slices that get metrics of their own; metrics_by_slice.json has all."""
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_\-. :]")


class MlflowRunData(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters, metrics and tags of a run in MLflow."""

    parameters: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    slices_left_out: int = 0
    """Values of slices without metrics of their own."""


def run_data_of(run: api.RunReader) -> MlflowRunData:
    """Return the parameters, metrics and tags of a finished run; what is not known is not there, and an error is in no score."""
    result, manifest = run.result, run.run_manifest
    golden, summary = _golden(run), result.summary
    # Retention may have removed the artifact that they are made of.
    slices = {} if summary is None else _slices(run)
    kept = dict(list(slices.items())[:MAX_SLICES])
    # golden_v1 prescribes names and values of its metrics, so those of its own artifact come first.
    measured = _own(golden.get("metrics") or ({} if summary is None else _cases(summary, result.gate, manifest)))
    measured |= {} if summary is None else dict(_further(summary))
    for name, values in kept.items():
        measured |= {f"{name}/{member}": value for member, value in _of_slice(values)}
    return MlflowRunData(
        parameters=_parameters(manifest, golden.get("parameters") or {}),
        metrics=_nameable(measured),
        tags=_tags(manifest),
        slices_left_out=len(slices) - len(kept),
    )


def _golden(run: api.RunReader) -> Json:
    """Return the metrics of eval_results.json, where the run has one, under the contract's names."""
    path = run.artifacts().get("eval_results.json")
    found: Json = msgspec.json.decode(path.read_bytes()) if path is not None else {}
    return found


def _cases(summary: Summary, gate: GateResult, manifest: Manifest) -> dict[str, object]:
    """Return EvalRunMetrics of a run over another contract: the same names for the same things, so that runs line up."""
    decided = {"overall_passed": gate.passed} if _gates(manifest) else {}
    return {
        "total_cases": summary.total_records,
        "passed_cases": summary.pass_count,
        "failed_cases": summary.fail_count,
        "error_cases": summary.total_records - summary.n_scored,
        "pass_rate": summary.pass_rate,
        "average_score": summary.raw_score_mean,
        **decided,
    }


def _gates(manifest: Manifest) -> dict[str, object]:
    """Return the gates that are set."""
    # MLflow refuses a parameter that changes, such as from 4 to 4.0, in a later push of the run.
    return {name: plain_number(value) for name, value in gate_limits(manifest.plan.gates).items()}


def _own(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return numbers as MLflow takes them: true is 1, and undefined ones are left out."""
    # Booleans are ints in Python, and MLflow takes numbers only.
    return {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}


def _further(summary: Summary) -> Iterator[tuple[str, float]]:
    """Return the metrics of the summary that the contract does not know."""
    yield from _rates(summary)
    names = ("error_rate", "n_scored", "n_unscored", "invalid_records", "skipped_records")
    yield from _own({name: getattr(summary, name) for name in names}).items()
    if summary.truncated is not None:
        figures = msgspec.structs.asdict(summary.truncated)
        yield from ((f"truncated/{name}", value) for name, value in _own(figures).items())
    for kind, times in summary.latency_ms.by_name().items():
        yield from ((f"latency_ms/{kind}/{name}", value) for name, value in _own(times.figures()).items())
    for kind, tokens in summary.tokens.by_name().items():
        yield from _amounts(f"tokens/{kind}", tokens)
    yield from _amounts("cost_usd", summary.cost_usd)
    yield from ((f"errors/{code}", float(count)) for code, count in summary.errors.items())
    yield from _special(summary)


def _amounts(name: str, amount: AmountSummary) -> Iterator[tuple[str, float]]:
    """Return a sum and mean over the records of which it is known, and of how many it is not."""
    yield from ((f"{name}/{member}", value) for member, value in _own({"sum": amount.sum, "mean": amount.mean}).items())
    # Without both, one number says it all.
    if amount.n_known and amount.n_unknown:
        yield f"{name}/n_unknown", float(amount.n_unknown)


def _rates(summary: Summary) -> Iterator[tuple[str, float]]:
    """Yield pass rate and mean with the ends of their intervals, and with what they could be at worst and at best."""
    yield from _with_ends("pass_rate", summary.pass_rate_metric)
    yield from _with_ends("average_score", summary.raw_score_mean_metric)
    yield from _with_ends("score_mean", summary.score_mean_metric)
    for name, bounds in (("pass_rate", summary.pass_rate_bounds), ("score_mean", summary.score_mean_bounds)):
        if bounds is not None and summary.n_unscored:
            yield from ((f"{name}_{end}", value) for end, value in _own({"worst": bounds.worst, "best": bounds.best}).items())


def _with_ends(name: str, metric: MetricValue | PassAtK | None) -> Iterator[tuple[str, float]]:
    if metric is None or metric.value is None:
        return
    yield name, float(metric.value)
    if metric.interval is not None:
        yield f"{name}_low", metric.interval.low
        yield f"{name}_high", metric.interval.high


def _special(summary: Summary) -> Iterator[tuple[str, float]]:
    """Return metrics that only some runs have: of a profile, of repeats, of a panel, of a ranking."""
    if summary.profile is not None:
        yield from _with_ends(f"profile/{summary.profile.id}", summary.profile.metric)
    for member in ("checks", "graders"):
        named = getattr(summary, member)
        for name, found in named.items() if isinstance(named, dict) else ():
            yield from _with_ends(f"{member}/{name}/pass_rate", found.pass_rate_metric)
            yield from _with_ends(f"{member}/{name}/score_mean", found.score_mean_metric)
            for part, score in getattr(found, "scores", {}).items():
                yield from _with_ends(f"{member}/{name}/scores/{part}", score.metric)
    if summary.tool_calls is not msgspec.UNSET:
        yield from _tool_calls("tool_calls", summary.tool_calls)
        for name, tool in list(summary.tool_calls.tools.items())[:MAX_TOOLS]:
            yield from _tool_calls(f"tools/{name}", tool)
    if isinstance(summary.repeats, RepeatSummary):
        for name, found in (("pass_at_k", summary.repeats.pass_at_k), ("pass_hat_k", summary.repeats.pass_hat_k)):
            for entry in found:
                yield from _with_ends(f"{name}/{entry.k}", entry)
    if isinstance(summary.panel, PanelSummary):
        counts = _own({name: getattr(summary.panel, name) for name in PanelSummary.__struct_fields__ if name.startswith("n_")})
        yield from ((f"panel/{name}", value) for name, value in counts.items())
    for candidate in summary.ranking.candidates if isinstance(summary.ranking, RankingSummary) else ():
        yield from _with_ends(f"ranking/{candidate.name}/win_chance", candidate.win_chance)
    for judge in summary.judges if isinstance(summary.judges, tuple) else ():
        measured = {"score_mean": judge.score_mean, "agreement": judge.agreement.value, "n_lost": judge.n_lost}
        yield from ((f"judges/{judge.judge}/{name}", value) for name, value in _own(measured).items())


def _tool_calls(name: str, calls: ToolMetrics) -> Iterator[tuple[str, float]]:
    """Yield counts and rates of the calls of one tool, or of all."""
    counts = ("expected", "scored", "made", "name_correct", "arguments_correct", "missing", "extra", "not_json")
    yield from ((f"{name}/{count}", float(getattr(calls, count))) for count in counts)
    for rate in ("called_rate", "correct_rate", "wanted_rate"):
        metric = MetricValue(value=getattr(calls, rate), interval=getattr(calls, f"{rate}_interval"), n=calls.scored)
        yield from _with_ends(f"{name}/{rate}", metric)


def _slices(run: api.RunReader) -> dict[str, SliceSummary]:
    """Yield every group of every slice with the path of its metrics."""
    found: dict[str, SliceSummary] = {}
    if "metrics_by_slice.json" not in run.artifacts():
        # Slices are optional in MLflow: the run's own page has them.
        return found
    for name, slices in run.slice_metrics().items():
        # A slice with one value repeats the metrics of the run.
        if slices.n_values > 1:
            found |= {
                f"slices/{_plain(name)}/{_plain(NO_VALUE if group.value is None else group.value)}": group
                for group in slices.values
            }
    return found


def _of_slice(group: SliceSummary) -> Iterator[tuple[str, float]]:
    yield "n_scored", float(group.n_scored)
    yield from _with_ends("pass_rate", group.pass_rate_metric)
    yield from _with_ends("average_score", group.raw_score_mean_metric)


def _nameable(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics under names that MLflow takes; two that would become one keep apart by a hash."""
    # Part by part: a slash in a name makes MLflow show a group, and one in a value must not.
    return {_fit_name("/".join(map(_plain, name.split("/")))): value for name, value in metrics.items()}


def _plain(text: str) -> str:
    """Return text of a dataset or a model as a part of a name, without forbidden characters and different for different texts."""
    plain = _UNNAMEABLE.sub("_", text).strip(" .")
    # A text that was changed gets a hash, so that two texts never share a metric.
    if plain and plain == text:
        return plain
    return f"{plain if plain.strip('_') else 'value'}-{_digest(text)}"


def _fit_name(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 9]}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _parameters(manifest: Manifest, golden: Mapping[str, object]) -> dict[str, str]:
    plan, candidate, gates = manifest.plan, manifest.candidate, _gates(manifest)
    contract = {
        "assistant_model": candidate.model,
        "judge_model": ", ".join(judge.model for judge in manifest.judges),
        "temperature": manifest.temperature,
        "max_tokens": manifest.max_new_tokens,
        "dataset_version": manifest.dataset_version,
        "pass_rate_threshold": gates.get("pass_rate"),
        "score_threshold": gates.get("min_score"),
        "max_error_rate": gates.get("max_error_rate"),
        "max_truncated": gates.get("max_truncated"),
        "min_tool_calls": gates.get("min_tool_calls"),
        **golden,
    }
    further = {
        "candidate": candidate.name,
        "judges": ", ".join(judge.name for judge in manifest.judges),
        "dataset": ", ".join(dataset.dataset_id for dataset in plan.datasets),
        "contract": ", ".join(dict.fromkeys(dataset.contract for dataset in plan.datasets)),
        "profile": manifest.profile and manifest.profile.id,
        "limit": plan.limit,
        "sample": plan.sample,
        "repeat": plan.repeat,
        "seed": plan.seed,
        "response_source": plan.response_source,
        "pass_threshold": plain_number(plan.pass_threshold),
        "case_pass_score": plan.case_pass_score,
    }
    # MLflow refuses empty parameters.
    return {name: str(value)[:LONGEST_VALUE] for name, value in {**contract, **further}.items() if value not in (None, "")}


def _tags(manifest: Manifest) -> dict[str, str]:
    verdict = {"assay.gate": "passed" if manifest.gate.passed else "missed"} if _gates(manifest) else {}
    return {
        RUN_TAG: manifest.run_id,
        # The manifest's hash identifies the run: an id may be used again.
        MANIFEST_TAG: manifest.own_hash,
        "assay.version": manifest.assay_version,
        "assay.status": manifest.status,
        "assay.dataset": ", ".join(dataset.title for dataset in manifest.plan.datasets)[:LONGEST_VALUE],
        "assay.dataset_id": manifest.dataset_id[:LONGEST_VALUE],
        "assay.dataset_version": manifest.dataset_version[:LONGEST_VALUE],
        "assay.dataset_sha256": ",".join(dataset.sha256 for dataset in manifest.plan.datasets)[:LONGEST_VALUE],
        **verdict,
    }
