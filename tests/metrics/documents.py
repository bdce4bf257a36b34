"""Metrics as the files of a run have them."""

from typing import Any

import msgspec

from assay.metrics import repeats, summary


def summarize(*given: Any, **settings: Any) -> dict[str, Any]:
    return as_written(summary.summarize(*given, **settings))


def summarize_slices(*given: Any, **settings: Any) -> dict[str, Any]:
    return as_written(summary.summarize_slices(*given, **settings))


def summarize_repeats(given: repeats.RepeatedAnswers) -> dict[str, Any]:
    return as_written(repeats.summarize_repeats(given))


def as_written(struct: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(struct))
    return found
