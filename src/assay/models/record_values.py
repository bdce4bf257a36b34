"""Values of a record that an HTTP endpoint's requests contain besides the messages."""

from collections.abc import Callable
from typing import Any

import msgspec

from assay.core.canonical import JsonObject, RequestMembers
from assay.core.http_template import METADATA, OMITTED, slots_in
from assay.core.model_call import ModelFailure, ModelRequest
from assay.core.plan import ProviderPlan
from assay.core.provider import PROVIDERS
from assay.models.failures import shorten


def slots_of(provider: ProviderPlan) -> tuple[str, ...]:
    """List the slots in the requests of an endpoint."""
    return slots_in([provider.base_url, provider.body or {}, list(provider.headers.values())])


def sent_members(provider: ProviderPlan) -> tuple[str, ...]:
    """List the members of records, as reports call them, that the requests of an endpoint contain and those of models do not."""
    used = {slot.partition(".")[0] for slot in slots_of(provider)} if PROVIDERS[provider.kind].is_described else set()
    return tuple(member for slot, member in _MEMBERS.items() if slot in used)


_MEMBERS = {METADATA: "metadata", "attachments": "attachments[].kind"}


def record_values(provider: ProviderPlan) -> Callable[[ModelRequest], object] | None:
    """Build the function that returns what a reply depends on besides the messages; None where it is nothing."""
    slots = [slot for slot in slots_of(provider) if slot.split(".")[0] in (METADATA, "record_id", "attachments")]
    if not slots:
        return None

    def values(ask: ModelRequest) -> object:
        record = ask.record
        found: dict[str, object] = {}
        for slot in slots:
            if slot == "attachments":
                found[slot] = attachment_values(ask)
            elif slot == "record_id":
                found[slot] = record.id if record else ""
            else:
                value = _member(record.metadata if record else {}, slot)
                found |= {} if value is OMITTED else {slot: value}
        return found

    return values


def attachment_values(ask: ModelRequest) -> list[RequestMembers]:
    """Return the attachments with their texts."""
    return [msgspec.structs.asdict(one) for one in (ask.record.attachments if ask.record else ())]


def metadata_value(ask: ModelRequest, slot: str) -> Any:
    """Return a member of the record's metadata; raises ModelFailure when there is none."""
    if ask.record is None and ask.stage == "candidate":
        # A probe asks about no record: the name shows where the value will stand.
        return slot
    metadata = ask.record.metadata if ask.record else {}
    found = _member(metadata, slot)
    if found is OMITTED:
        known = ", ".join(list(metadata)[:10]) or "none"
        raise ModelFailure(
            "missing_value", shorten(f"the record has no value for {{{{{slot}}}}}; members of its metadata: {known}")
        )
    return found


def _member(metadata: JsonObject, slot: str) -> Any:
    value: Any = metadata
    for name in slot.split(".")[1:]:
        if not isinstance(value, dict) or name not in value:
            return OMITTED
        value = value[name]
    return value
