"""Redaction goes by the names of members: a text that is added to a line is either redacted or known to be our own."""

from typing import get_args, get_type_hints

import msgspec
import pytest
from msgspec import UnsetType

from assay.core.artifact_lines import AttemptLine, PredictionLine
from assay.engine.finalization.artifact_lines import ATTEMPT_TEXTS, PREDICTION_TEXTS

SHOWN = {"record_id"}
"""Redacted once for all lines of a record."""
OF_PLAN = {"call_id", "dataset", "candidate_name", "model", "policy_id", "evaluator", "template"}
"""Names of the plan and what is made of them, which are redacted there."""
OUR_OWN = {
    *("status", "scale", "label", "stage", "error_code", "profile_unscored"),
    *("record_sha256", "response_sha256", "stored_sha256", "template_sha256", "request_sha256"),
    *("policy_sha256", "chain_sha256"),
    *("at", "first_attempt_at", "last_attempt_at"),
    *("finish_reason", "request_id", "answered_by"),
}
"""Words of ours and of providers, which built-in rules alone redact, hashes and times."""


@pytest.mark.parametrize(("line", "redacted"), [(PredictionLine, PREDICTION_TEXTS), (AttemptLine, ATTEMPT_TEXTS)])
def test_every_text_of_a_line_is_redacted_or_our_own(line: type[msgspec.Struct], redacted: tuple[str, ...]) -> None:
    texts = {name for name, hint in get_type_hints(line).items() if set(get_args(hint) or (hint,)) <= {str, type(None), UnsetType}}
    assert texts - SHOWN - OF_PLAN - OUR_OWN == set(redacted)
