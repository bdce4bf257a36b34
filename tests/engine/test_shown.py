"""What a run is called with and keeps nowhere."""

import pytest

from assay.core.ask import Reply
from assay.core.outcome import Attempt
from assay.core.plan import ProviderPlan
from assay.engine.sealing.evidence import texts_of
from assay.engine.sealing.shown import ShownPlan, own_secrets
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


@pytest.mark.parametrize(("judge", "is_clean"), [("scripted/judge-4", True), ("judge.example.org", False)])
def test_the_name_of_one_of_several_judges_does_not_make_a_record_suspicious(*, judge: str, is_clean: bool) -> None:
    """`judge:overall@NAME` has an @ in it; only what would be replaced is a reason to look at every text."""
    shown = ShownPlan(plan_of(ProviderPlan(name="p", kind="scripted")), Redactor())
    attempt = Attempt(
        stage="judge", call_id=f"judge:overall@{judge}", round=1, started_at=0.0, latency_ms=1.0, model=judge, reply=Reply(text="5")
    )
    record = FinishedRecord(RecordRow(0, "q", "", None), (attempt,), None)
    assert shown.redactor.is_clean(texts_of(record, shown)) is is_clean
