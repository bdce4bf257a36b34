"""What a run is called with and keeps nowhere."""

import pytest

from assay.core.plan import ProviderPlan
from assay.engine.sealing.shown import own_secrets
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
