"""What a run is called with and keeps nowhere."""

import msgspec
import pytest

from assay.core.model_call import Reply
from assay.core.outcome import Attempt
from assay.core.plan import ModelPlan, ProviderPlan
from assay.engine.finalization.artifact_lines import texts_of
from assay.engine.records.redaction import RedactedPlan, own_secrets
from assay.store.ledger import FinishedRecord, RecordRow
from assay.store.redact import Redactor
from tests.models.asking import KEY, plan_of

ENVIRON = {
    "OPENAI_API_KEY": "vendor-secret-1",
    "TEAM": f"Bearer {KEY}",
    "REGION": "region-secret-1",
    "https_proxy": "http://user:proxy%2Fsecret@proxy:1",
    "ALL_PROXY": "http://[::1",
}
HEADERS = {"Authorization": "$TEAM", "X-Region": "$REGION", "X-Plain": "plain-value"}


@pytest.mark.parametrize(
    "secret", ["vendor-secret-1", KEY, f"Bearer {KEY}", "region-secret-1", "proxy/secret", "user:proxy/secret"]
)
def test_whatever_a_provider_is_called_with_is_redacted(secret: str) -> None:
    plan = plan_of(ProviderPlan(name="p", kind="openai", headers=HEADERS))
    assert Redactor(own_secrets(plan, ENVIRON)).text(f"it said {secret}.") == "it said [REDACTED:secret]."


def test_what_is_no_secret_stays() -> None:
    plan = plan_of(ProviderPlan(name="p", kind="openai", headers=HEADERS))
    text = "a user with the Bearer of a plain-value"
    assert Redactor(own_secrets(plan, ENVIRON)).text(text) == text


def shown_with(redactor: Redactor, judge: str) -> RedactedPlan:
    plan = plan_of(ProviderPlan(name="p", kind="scripted"))
    return RedactedPlan(msgspec.structs.replace(plan, judges=(ModelPlan(name=judge, provider="p", model="m"),)), redactor)


@pytest.mark.parametrize("judge", ["scripted/judge-4", "house.strict", "judge.example.org"])
def test_the_call_of_one_of_several_judges_is_no_address_of_e_mail(judge: str) -> None:
    shown = shown_with(Redactor(), judge)
    call_id = f"judge:overall@{judge}"
    calls = [call_id, call_id, f"{call_id}:again"]
    assert [*map(shown.call, calls)] == calls
    attempt = Attempt(stage="judge", call_id=call_id, round=1, started_at=0.0, latency_ms=1.0, model=judge, reply=Reply(text="5"))
    assert shown.redactor.is_clean(texts_of(FinishedRecord(RecordRow(0, "q", "", None), (attempt,), None)))


def test_a_secret_in_the_id_of_a_call_is_redacted_and_counted_each_time() -> None:
    shown = shown_with(Redactor(["vendor-secret-1"]), "house.strict")
    assert [shown.call("judge:vendor-secret-1@house.strict") for _ in range(2)] == ["judge:[REDACTED:secret]@house.strict"] * 2
    assert shown.redactor.counts == {"secret": 2}
    assert shown.call("judge:ann@example.org") == "judge:[REDACTED:email]"
