"""Datasets of Inspect AI (CSV, JSON, JSONL) as questions: rows with the names that its FieldSpec has by default."""

from collections.abc import Iterator

from assay.core.strict_json import parse_json
from assay.datasets.converters.rows import Row, RowRefused, choice_id, digest, is_empty, kind
from assay.datasets.imports.items import ImportedItem, ImportedQuestion, ImportSource, ImportState
from assay.integrations.importers.json_values import LazyObject, objects
from assay.integrations.importers.messages import ImportedPrompt, asked

_FIELDS = frozenset({"input", "target", "choices", "id", "metadata"})


def read_inspect_samples(sources: list[ImportSource], reading: ImportState) -> Iterator[tuple[ImportedItem, ImportSource, int]]:
    """Yield the samples of all files as questions."""
    reading.tool = "inspect_ai dataset"
    for source in sources:
        dataset = source.path.name.partition(".")[0]
        for line, sample in objects(source, "the sample"):
            try:
                question = _question(sample, dataset, reading)
            except RowRefused as problem:
                source.tally.refuse(str(problem), line=line)
                continue
            yield ImportedItem(question=question), source, line


def _question(sample: LazyObject, dataset: str, reading: ImportState) -> ImportedQuestion:
    given = asked(sample.get("input"), reading, names_media=True)
    targets, choices = _targets(sample.get("target")), _choices(sample.get("choices"))
    correct = _correct(targets, choices)
    reading.leave_out("sample.choices without a target among them", int(bool(choices) and not correct))
    for name in sample.names():
        reading.leave_out(f"sample.{name}", int(name not in _FIELDS and name in sample))
    references = [] if correct else targets
    listed = [{"id": choice_id(place, "stable"), "text": text} for place, text in enumerate(choices)] if correct else []
    own = sample.get("id")
    return ImportedQuestion(
        # Inspect numbers samples without an id by their place, which another file would change.
        id=str(own) if isinstance(own, str | int) and not is_empty(own) else f"{dataset}:{_digest(given, references, listed)}",
        dataset=dataset,
        prompt=given.prompt,
        messages=given.messages,
        references=references,
        choices=listed,
        correct_choice_ids=correct,
        metadata=_metadata(sample.get("metadata")),
    )


def _digest(given: ImportedPrompt, references: list[str], choices: list[Row]) -> str:
    return digest(given.prompt, given.messages, references, choices)


def _targets(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    texts = [str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one for one in listed if not is_empty(one)]
    for text in texts:
        if not isinstance(text, str):
            raise RowRefused(f"target is {kind(text)}, neither text nor a list of texts")
    return [text for text in texts if isinstance(text, str)]


def _choices(value: object) -> list[str]:
    """Return the choices as Inspect reads them: a text is cut at its commas, or at spaces where it has none."""
    if isinstance(value, str):
        parts = value.split(",")
        return [part.strip() for part in (parts if len(parts) > 1 else value.split()) if part.strip()]
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [str(one).strip() for one in listed if str(one).strip()]


def _correct(targets: list[str], choices: list[str]) -> list[str]:
    """Return the letters of a multiple-choice target; none where the target is something else."""
    # `AC` stands for two letters.
    letters = [letter for target in targets for letter in (target if target.isupper() else [target])]
    known = {choice_id(place, "stable") for place in range(len(choices))}
    return letters if len(choices) > 1 and letters and known.issuperset(letters) else []


def _metadata(value: object) -> Row:
    """Return the metadata of a sample; tables write it as the text of a JSON object."""
    found = value
    if isinstance(value, str) and value.strip():
        document = parse_json(value)
        if document.flaws:
            raise RowRefused(f"metadata is not JSON: {document.flaws[0].message}")
        found = document.value
    if is_empty(found):
        return {}
    if not isinstance(found, dict):
        raise RowRefused(f"metadata is {kind(found)}, not an object")
    return found
