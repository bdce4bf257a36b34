"""A provider's list of its models, in the formats of all vendors: names, dates of retirement, and the page that comes next."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from difflib import get_close_matches
from urllib.parse import quote

import msgspec

from assay.models.transport import UndecodableReply, decode_body

MAX_PAGES = 10
"""Pages of a list that are read; vendors put 20 to 1,000 models on one."""
_DECODER = msgspec.json.Decoder(object)
_RETIREMENTS = (
    "retirement_date",
    "retires_at",
    "retired_at",
    "shutdown_date",
    "shutdown_at",
    "sunset_date",
    "expiration_date",
    "end_of_life",
    "deprecation_date",
    "deprecated_at",
    # Mistral gives a date, Azure an object with a date for each use.
    "deprecation",
)
"""Members that hold the date from which a model answers no more, the most exact first."""
_REPLACEMENTS = ("deprecation_replacement_model", "replacement_model", "recommended_replacement", "replacement")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_RESOURCE = "models/"
"""Prefix of names in Google's list; requests go without it."""
_NEAREST = 3
_LIKENESS = 0.5


class ListedModel(msgspec.Struct, frozen=True):
    """One model of a provider's list."""

    id: str
    retires: date | None = None
    """First day on which it may no longer answer, where the provider says so."""
    replacement: str = ""


class ModelPage(msgspec.Struct, frozen=True):
    """One page of a list."""

    models: tuple[ListedModel, ...]
    next_query: str = ""
    """Query of the next page; empty for the last one."""


def read_page(body: bytes) -> ModelPage | None:
    """Read a page of any vendor's format; None for anything but a list of models."""
    try:
        decoded = decode_body(body, _DECODER).value
    except UndecodableReply:
        return None
    # Together's list has no object around it.
    entries = decoded if isinstance(decoded, list) else _first_list(decoded, ("data", "models"))
    if entries is None:
        return None
    models = tuple(_read_models(entries))
    return ModelPage(models, _next_query(decoded) if isinstance(decoded, dict) and models else "")


def nearest_names(name: str, models: Iterable[ListedModel]) -> list[str]:
    """Return the listed names that are most like a name, the likest first."""
    # Vendors disagree on capitals, and users copy names from pages of other vendors.
    by_lower = {model.id.lower(): model.id for model in models}
    return [by_lower[found] for found in get_close_matches(name.lower(), by_lower, n=_NEAREST, cutoff=_LIKENESS)]


def _first_list(decoded: object, names: Iterable[str]) -> list[object] | None:
    if not isinstance(decoded, dict):
        return None
    found = (decoded[name] for name in names if isinstance(decoded.get(name), list))
    return next(found, None)


def _read_models(entries: Iterable[object]) -> Iterator[ListedModel]:
    for entry in entries:
        # One odd entry must not hide the others: the list is only for hints.
        if isinstance(entry, Mapping) and (name := _text(entry, ("id", "name", "model"))):
            yield ListedModel(name.removeprefix(_RESOURCE), _retirement(entry), _text(entry, _REPLACEMENTS))


def _text(entry: Mapping[object, object], names: Iterable[str]) -> str:
    """Return the first text among some members; empty if there is none."""
    return next((value for name in names if isinstance(value := entry.get(name), str) and value), "")


def _retirement(entry: Mapping[object, object]) -> date | None:
    found = (_date(entry.get(name)) for name in _RETIREMENTS)
    return next((value for value in found if value is not None), None)


def _date(value: object) -> date | None:
    """Read a date from a text, from seconds since 1970, or from an object with one for inference."""
    if isinstance(value, Mapping):
        # Azure retires a model for fine-tuning on another day.
        return _date(value.get("inference"))
    try:
        if isinstance(value, str) and (match := _DATE.match(value)):
            return date(*map(int, match.groups()))
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value, UTC).date()
    # An invalid date does not exclude the model.
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _next_query(decoded: Mapping[object, object]) -> str:
    """Return the query of the next page, by Anthropic's cursor or Google's token."""
    # Both are the provider's texts, and go into an address.
    token, last = decoded.get("nextPageToken"), decoded.get("last_id")
    if isinstance(token, str) and token:
        return f"pageToken={quote(token, safe='')}"
    return f"after_id={quote(last, safe='')}" if decoded.get("has_more") is True and isinstance(last, str) and last else ""
