"""Values of records in requests: part of what a reply depends on, and named when they are missing."""

import msgspec
import pytest

from assay.core.model_call import AttachedText, ModelFailure, RecordInput
from assay.core.plan import ProviderPlan
from assay.models.record_values import metadata_value, record_values, slots_of
from tests.models.asking import ask_of

RECORD = RecordInput(id="r-1", metadata={"a": {"b": 1}}, attachments=(AttachedText("x", "x", "", "text"),))
ASK = msgspec.structs.replace(ask_of(), record=RECORD)


def endpoint(**body: str) -> ProviderPlan:
    return ProviderPlan(name="p", kind="http", base_url="http://h/{{model}}", body=body, headers={"X": "{{record_id}}"})


def test_slots_are_found_in_address_body_and_headers() -> None:
    assert slots_of(endpoint(q="{{prompt}}")) == ("model", "prompt", "record_id")


def test_a_reply_depends_on_the_values_that_are_sent() -> None:
    values = record_values(endpoint(a="{{metadata.a.b}}", c="{{metadata.gone}}", f="{{attachments}}"))
    assert values is not None
    found = [{"path": "x", "title": "x", "kind": "", "text": "text"}]
    assert values(ASK) == {"metadata.a.b": 1, "attachments": found, "record_id": "r-1"}


def test_messages_alone_need_no_further_hash() -> None:
    provider = ProviderPlan(name="p", kind="http", base_url="http://h", body={"m": "{{messages}}"})
    assert record_values(provider) is None


@pytest.mark.parametrize("slot", ["metadata.a.c", "metadata.a.b.c", "metadata.x"])
def test_a_missing_value_is_a_failure_of_the_record(slot: str) -> None:
    with pytest.raises(ModelFailure) as missing:
        metadata_value(ASK, slot)
    assert missing.value.code == "missing_value"
