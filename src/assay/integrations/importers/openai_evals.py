"""Samples of OpenAI evals, with the registry entries that name them, into questions with their ideal answers."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from assay.core.errors import SourceUnreadable
from assay.datasets.converters.rows import RowRefused, digest, kind
from assay.datasets.imports.items import ImportedItem, ImportedQuestion, ImportSource, ImportState
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.integrations.importers.json_values import LazyObject, objects
from assay.integrations.importers.messages import asked

_YAML = frozenset({".yaml", ".yml"})
_MEMBERS = frozenset({"input", "ideal", "metadata"})


def read_openai_evals(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the samples of all JSONL files; entries of registry files name the eval that they belong to."""
    reading.tool = "openai evals"
    names: dict[str, str] = {}
    for source in sources:
        if source.ending in _YAML:
            names |= _registered(source, reading)
    for source in sources:
        if source.ending in _YAML:
            continue
        dataset = _dataset(source, names)
        for line, sample in objects(source, "the sample"):
            try:
                question = _question(sample, dataset, reading)
            except RowRefused as problem:
                source.tally.refuse(str(problem), line=line)
                continue
            yield ImportedItem(question=question), source, line


def _registered(source: ImportSource, reading: ImportState) -> dict[str, str]:
    """Return the eval of each samples file; how it grades has no place in a dataset."""
    document = parse_yaml(bytes(source.opened.buffer()))
    if document.flaws or not isinstance(document.value, dict):
        reason = document.flaws[0].message if document.flaws else f"it is {kind(document.value)}"
        raise SourceUnreadable(f"'{source.name}' is not a registry of OpenAI evals: {reason}", hint="name samples as JSONL")
    names: dict[str, str] = {}
    for name, entry in document.value.items():
        arguments = entry.get("args") if isinstance(entry, dict) else None
        if not isinstance(arguments, dict) or not isinstance(arguments.get("samples_jsonl"), str):
            continue
        names[arguments["samples_jsonl"]] = str(name)
        reading.leave_out(f"class {str(entry.get('class')).rpartition(':')[2]}")
        for argument in arguments:
            reading.leave_out(f"args.{argument}", int(argument != "samples_jsonl"))
    return names


def _dataset(source: ImportSource, names: dict[str, str]) -> str:
    """Return the eval that the registry files name for a file, by the end of its path; else the file's own name."""
    path = PurePosixPath(source.path.absolute().as_posix())
    for samples, name in names.items():
        if path.parts[-len(PurePosixPath(samples).parts) :] == PurePosixPath(samples).parts:
            return name
    return source.path.name.partition(".")[0]


def _question(sample: LazyObject, dataset: str, reading: ImportState) -> ImportedQuestion:
    given = asked(sample.get("input"), reading)
    ideal = _ideal(sample.get("ideal"))
    for name in sample.names():
        reading.leave_out(f"sample.{name}", int(name not in _MEMBERS and name in sample))
    return ImportedQuestion(
        id=f"{dataset}:{digest(given.prompt, given.messages, ideal)}",
        dataset=dataset,
        prompt=given.prompt,
        messages=given.messages,
        references=ideal,
        metadata=sample.mapping("metadata"),
    )


def _ideal(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [] if value is None else [value]
    texts = [str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one for one in listed]
    strange = [one for one in texts if not isinstance(one, str)]
    if strange:
        raise RowRefused(f"an ideal answer is {kind(strange[0])}")
    return list(dict.fromkeys(text for text in texts if text.strip()))
