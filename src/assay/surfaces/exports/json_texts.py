"""Predictions as JSON and JSON Lines, and answers in the form that other runs take."""

from collections.abc import Iterator

from assay.api import Run
from assay.surfaces.reporters.plain_json import json_text


def json_chunks(run: Run, notes: list[str]) -> Iterator[bytes]:  # noqa: ARG001  # the signature of every format
    """One document with the lines of predictions.jsonl."""
    yield b'{"records":['
    for number, line in enumerate(run.predictions()):
        yield (b",\n" if number else b"\n") + json_text(line).encode()
    yield b"\n]}\n"


def json_lines_chunks(run: Run, notes: list[str]) -> Iterator[bytes]:  # noqa: ARG001  # the signature of every format
    """The lines of predictions.jsonl."""
    for line in run.predictions():
        yield json_text(line).encode() + b"\n"


def responses_chunks(run: Run, notes: list[str]) -> Iterator[bytes]:
    """The answers, as `assay run --responses` and other runners take them: a row for each record that has one."""
    left_out = 0
    for line in run.predictions():
        if line["model_response"] is None:
            left_out += 1
            continue
        row = {"example_id": line["record_id"], "candidate_name": line["candidate_name"], "response_text": line["model_response"]}
        yield json_text({**row, **({"sample": line["sample"]} if "sample" in line else {})}).encode() + b"\n"
    if left_out:
        notes.append(f"{left_out:,} of the records have no answer, and no row")
