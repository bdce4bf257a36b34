"""Policies of one's own: a function of a record that says what the candidate is asked."""

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.case import Case, Message
from assay.core.foreign import ForeignCode, ForeignFailure
from assay.core.outcome import GradingFailure

POLICY_ERROR = "policy_error"
"""Code of a record that a policy could make no messages of."""


def policy_messages(policy: Any, case: Case, *, attachments: Mapping[str, str]) -> tuple[Message, ...]:
    """What the candidate gets; raises GradingFailure where the policy raises, or gives no messages."""
    try:
        with ForeignCode():
            takes_attachments = "attachments" in inspect.signature(policy).parameters
            _check_attachments(case, takes_attachments=takes_attachments)
            said = policy(case, attachments=dict(attachments)) if takes_attachments else policy(case)
    except ForeignFailure as failure:
        raise GradingFailure(POLICY_ERROR, f"the policy raised {failure}") from failure.problem
    return _messages(said)


def _check_attachments(case: Case, *, takes_attachments: bool) -> None:
    """Attachments that a policy does not know of would be left out without a word."""
    if case.attachments and not takes_attachments:
        raise GradingFailure(POLICY_ERROR, "the record has attachments, and the policy has no parameter 'attachments' for them")


def _messages(said: Any) -> tuple[Message, ...]:
    if isinstance(said, str):
        return (Message("user", said),)
    try:
        messages = msgspec.convert(msgspec.to_builtins(said), tuple[Message, ...])
    except (msgspec.ValidationError, TypeError) as problem:
        raise GradingFailure(POLICY_ERROR, f"what the policy returned are no messages: {problem}") from None
    if not messages:
        raise GradingFailure(POLICY_ERROR, "the policy returned no messages")
    return messages
