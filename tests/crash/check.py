"""What must be true of a run that was killed, whenever that was."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from assay import api
from assay.engine.finalization.artifact_lines import VOLATILE_FIELDS
from tests.crash.job import Job
from tests.crash.provider import CountingProvider

Artifacts = dict[str, Any]


def problems_of(job: Job, run_id: str, expected: Artifacts) -> list[str]:
    """Everything that is wrong with a finished run; `expected` is what an uninterrupted one left."""
    folder = job.runs / run_id
    if not (folder / "run_manifest.json").is_file():
        return ["the run has no manifest"]
    found = [f"verify: {line}" for line in api.verify(run_id, runs_dir=job.runs)]
    found += [f"replay: {line}" for line in api.replay(run_id, runs_dir=job.runs)]
    found += [f"left over: {path}" for path in (job.runs / ".active").glob(f"{run_id}/**/*")]
    found += _not_once(folder / "predictions.jsonl")
    found += _differences(stable_artifacts(folder), expected)
    return found


def _not_once(path: Path) -> list[str]:
    lines = map(json.loads, path.read_text().splitlines())
    counts = Counter((line["record_id"], line.get("sample")) for line in lines)
    return [f"{record_id} (sample {sample}) has {count} results" for (record_id, sample), count in counts.items() if count != 1]


def stable_artifacts(folder: Path) -> Artifacts:
    """All artifacts of a run without what may differ between two runs with the same replies."""
    return {path.name: _stable(_without_failures(_content(path))) for path in sorted(folder.iterdir())}


def _without_failures(content: Any) -> Any:
    """A manifest without the failures after which its run was resumed, and the states that each has added."""
    if not isinstance(content, dict) or "failures" not in content:
        return content
    extra = {entered[name] for entered in content["failures"] for name in ("failed_at", "resumed_at")}
    states = [entry for entry in content["states"] if entry["entered_at"] not in extra]
    return {**{name: value for name, value in content.items() if name != "failures"}, "states": states}


def _content(path: Path) -> Any:
    text = path.read_text()
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _stable(member) for name, member in value.items() if name not in VOLATILE_FIELDS}
    # Whether a time comes in which only retries are left is a matter of chance.
    return [_stable(member) for member in value if not _is_retrying(member)] if isinstance(value, list) else value


def _is_retrying(value: Any) -> bool:
    return isinstance(value, dict) and value.get("state") == "retrying"


def _differences(value: Any, expected: Any, path: str = "") -> list[str]:
    if isinstance(value, dict) and isinstance(expected, dict):
        names = sorted({*value, *expected})
        return [line for name in names for line in _differences(value.get(name), expected.get(name), f"{path}/{name}")]
    if isinstance(value, list) and isinstance(expected, list) and len(value) == len(expected):
        pairs = enumerate(zip(value, expected, strict=True))
        return [line for index, (one, other) in pairs for line in _differences(one, other, f"{path}[{index}]")]
    return [] if value == expected else [f"{path} is {_short(value)} instead of {_short(expected)}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]}…"


def repeated_calls(provider: CountingProvider, calls: Counter[tuple[str, str]]) -> int:
    """Calls beyond those of an uninterrupted run; negative when one was left out."""
    missing = calls - provider.calls
    return -missing.total() if missing else (provider.calls - calls).total()
