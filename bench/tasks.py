"""One measurement in a process of its own: `python bench/tasks.py TASK FILE` prints what it cost as JSON.

With `turns` as a third word it measures again, warm, for every line that it is sent.

Imports, schemas and the reading of files into memory are not counted for the peers; assay is given a path and pays for everything.
"""

import gc
import inspect
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

Action = Callable[[], Any]
"""What is measured; returns what it found, as JSON."""

SETTLE_SECONDS = 0.2
"""Threads that libraries start when they are imported (OpenBLAS) spin for a while; their time is nobody's cost here."""
Criterion = Literal["accuracy", "clarity", "reasoning", "factuality", "overall"]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["dataset_id", "dataset_version", "schema_version", "records"],
    "properties": {
        "dataset_id": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9_.-]*$"},
        "dataset_version": {"type": "string", "minLength": 1, "maxLength": 64},
        "schema_version": {"const": "1.0"},
        "created_at": {"type": "string"},
        "metadata": {"type": "object"},
        "records": {"type": "array", "minItems": 1, "maxItems": 50_000, "items": {"$ref": "#/$defs/record"}},
    },
    "$defs": {
        "record": {
            "type": "object",
            "required": ["record_id", "input"],
            "additionalProperties": False,
            "properties": {
                "record_id": {"type": "string", "minLength": 1, "maxLength": 128},
                "input": {
                    "type": "object",
                    "required": ["prompt"],
                    "properties": {"prompt": {"type": "string", "minLength": 1, "maxLength": 200_000}},
                },
                "reference": {"type": "object", "properties": {"answer": {"type": "string", "maxLength": 200_000}}},
                "tags": {"type": "array", "maxItems": 32, "items": {"type": "string", "minLength": 1, "maxLength": 64}},
                "expected": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "max_latency_ms": {"type": "integer", "minimum": 1, "maximum": 120_000},
                        "required_criteria": {"type": "array", "items": {"enum": list(get_args(Criterion))}},
                    },
                },
                "metadata": {"type": "object"},
            },
        }
    },
}
"""batch_v1 as far as JSON Schema can say it."""


def json_loads(path: Path) -> Action:
    """The standard library's parser."""
    content = path.read_bytes()
    return lambda: json.loads(content) and None


def orjson_loads(path: Path) -> Action:
    """The parser most people take when speed matters, as it is used: with the garbage collector on."""
    loads, content = import_module("orjson").loads, path.read_bytes()
    return lambda: loads(content) and None


def orjson_loads_gc_off(path: Path) -> Action:
    """The same without the garbage collector: the yardstick that holds for every version of Python."""
    gc.disable()
    return orjson_loads(path)


def pydantic_model(path: Path) -> Action:
    """A model of the contract, strict, all errors."""
    pydantic, content = import_module("pydantic"), path.read_bytes()
    model = _pydantic_dataset(pydantic)

    def action() -> Any:
        try:
            model.model_validate_json(content)
        except pydantic.ValidationError as problem:
            return {"errors": problem.error_count(), "first": problem.errors()[0]["msg"]}
        return {"errors": 0}

    return action


def _pydantic_dataset(pydantic: Any) -> Any:
    """Made here, so that the other tasks do not pay for the import."""
    settings = pydantic.ConfigDict(strict=True, extra="forbid")
    open_settings = pydantic.ConfigDict(strict=True, extra="allow")

    def text(low: int, high: int) -> Any:
        return Annotated[str, pydantic.Field(min_length=low, max_length=high)]

    make = pydantic.create_model
    latency = Annotated[int, pydantic.Field(ge=1, le=120_000)]
    tags = Annotated[list[text(1, 64)], pydantic.Field(max_length=32)]  # type: ignore[misc,valid-type]  # made by a function
    prompt = make("Input", __config__=open_settings, prompt=(text(1, 200_000), ...))
    reference = make("Reference", __config__=open_settings, answer=(text(0, 200_000), ""))
    expected = make("Expected", __config__=settings, max_latency_ms=(latency, 1), required_criteria=(list[Criterion], []))
    fields: dict[str, Any] = {"record_id": (text(1, 128), ...), "input": (prompt, ...), "reference": (reference, None)}
    record = make(
        "Record", __config__=settings, **fields, tags=(tags, []), expected=(expected, None), metadata=(dict[str, Any], {})
    )
    records = Annotated[list[record], pydantic.Field(min_length=1, max_length=50_000)]  # type: ignore[valid-type]
    head: dict[str, Any] = {"dataset_id": (text(1, 128), ...), "dataset_version": (text(1, 64), ...)}
    return make("Dataset", __config__=open_settings, **head, schema_version=(Literal["1.0"], ...), records=(records, ...))


def jsonschema_rs(path: Path) -> Action:
    """JSON Schema in Rust, on what orjson reads."""
    validator, loads = import_module("jsonschema_rs").validator_for(SCHEMA), import_module("orjson").loads
    content = path.read_bytes()
    return lambda: {"errors": _count(validator.iter_errors(loads(content)))}


def jsonschema_python(path: Path) -> Action:
    """JSON Schema in Python, as check-jsonschema runs it, on what orjson reads."""
    validator, loads = import_module("jsonschema").Draft202012Validator(SCHEMA), import_module("orjson").loads
    content = path.read_bytes()
    return lambda: {"errors": _count(validator.iter_errors(loads(content)))}


def _count(errors: Iterator[object]) -> int:
    return sum(1 for _ in errors)


def orjson_lines(path: Path) -> Action:
    """orjson on each line, streamed."""
    loads = import_module("orjson").loads

    def action() -> None:
        with path.open("rb") as file:
            for line in file:
                loads(line)

    return action


def assay_validate(path: Path) -> Action:
    """Everything that the contracts say: all checks, all issues with their places, hashes of batch_v1 records."""
    assay = import_module("assay")
    config = assay.ValidationConfig(lint=False)
    return lambda: _counts(assay.validate(path, config=config))


def assay_lint(path: Path) -> Action:
    """The same, and what may be wrong with rubrics that break no rule."""
    validate = import_module("assay").validate
    return lambda: _counts(validate(path))


def assay_two_workers(path: Path) -> Action:
    """The same with two processes; skipped where this version knows no workers."""
    assay = import_module("assay")
    if "workers" not in inspect.signature(assay.validate).parameters:
        raise ModuleNotFoundError("this version has no workers")
    config = assay.ValidationConfig(lint=False)
    return lambda: _counts(assay.validate(path, config=config, workers=2))


def assay_hashes(path: Path) -> Action:
    """Everything, with the hash of every record and no case built."""
    validate = import_module("assay.api").validate_with_hashes
    return lambda: {"values": _count(validate(path).hashes)}


def assay_stream(path: Path) -> Action:
    """Everything, with every case built and hashed."""
    stream = import_module("assay").stream
    return lambda: {"values": _count(stream(path))}


def assay_truth(path: Path) -> Action:
    """Which errors of the list beside the file are found, and which are found that are not on it."""
    validate = import_module("assay").validate
    lines = path.with_suffix(".truth.jsonl").read_text(encoding="utf-8").splitlines()
    expected = {tuple(json.loads(line).values()) for line in lines}

    def action() -> dict[str, int]:
        errors = validate(path).record_errors
        found = {(issue.index, issue.record_id, issue.code, issue.path) for issue in errors}
        return {"expected": len(expected), "found": len(expected & found), "beside": len(found - expected)}

    return action


def assay_import(_path: Path) -> Action:
    """`import assay` alone: what a program pays that may never validate anything."""

    def action() -> None:
        import_module("assay")

    return action


def _counts(report: Any) -> dict[str, int]:
    return {"errors": len(report.record_errors) + len(report.dataset_errors), "records": report.counts.total_records}


ASSAY = ("assay.api.validation", *(f"assay.datasets.{contract}" for contract in ("batch_v1", "legal_eval_v1", "conversation_v1")))
"""Modules of assay that are loaded before a measurement, as those of the peers are."""


class Task(NamedTuple):
    """What to import before memory is looked at, and what makes the action."""

    needs: tuple[str, ...]
    prepare: Callable[[Path], Action]


TASKS: dict[str, Task] = {
    "json.loads": Task((), json_loads),
    "orjson.loads": Task(("orjson",), orjson_loads),
    "orjson.loads, GC off": Task(("orjson",), orjson_loads_gc_off),
    "pydantic": Task(("pydantic",), pydantic_model),
    "jsonschema-rs": Task(("jsonschema_rs", "orjson"), jsonschema_rs),
    "jsonschema": Task(("jsonschema", "orjson"), jsonschema_python),
    "orjson per line": Task(("orjson",), orjson_lines),
    "assay": Task(ASSAY, assay_validate),
    "assay, with the lint": Task(ASSAY, assay_lint),
    "assay, two workers": Task(ASSAY, assay_two_workers),
    "assay, hashes": Task(ASSAY, assay_hashes),
    "assay, cases and hashes": Task(ASSAY, assay_stream),
    "truth": Task(ASSAY, assay_truth),
    "import assay": Task((), assay_import),
}


def measured(task: str, path: Path) -> Iterator[dict[str, Any]]:
    """What a task costs, as often as it is asked for."""
    try:
        for name in TASKS[task].needs:
            import_module(name)
        memory = _peak()
        action = TASKS[task].prepare(path)
        time.sleep(SETTLE_SECONDS)
        while True:
            yield _cost(action, memory)
    except ModuleNotFoundError as problem:
        yield {"absent": str(problem)}
    except ValueError as problem:
        yield {"refused": str(problem)[:120]}


def _cost(action: Action, memory: int) -> dict[str, Any]:
    """What an action costs and returns: CPU with and without that of children, wall, and memory added to the process so far."""
    cpu, own, clock = _cpu(), time.process_time(), time.perf_counter()
    result = action()
    return {
        "cpu": _cpu() - cpu,
        "own": time.process_time() - own,
        "wall": time.perf_counter() - clock,
        "memory": _peak() - memory,
        "result": result,
    }


def _cpu() -> float:
    usages = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _peak() -> int:
    """Bytes of resident memory at the peak, mapped files included."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would start with the peak of the process that started this one.
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Measure once, and with `turns` once more for every line of standard input."""
    costs = measured(sys.argv[1], Path(sys.argv[2]))
    print(json.dumps(next(costs)), flush=True)
    if "turns" in sys.argv[3:]:
        for _line in sys.stdin:
            print(json.dumps(next(costs)), flush=True)


if __name__ == "__main__":
    main()
