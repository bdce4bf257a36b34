"""Custom policies: functions that build the candidate's messages for a record."""

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.case import Case, Message
from assay.core.outcome import GradingFailure
from assay.core.third_party import ThirdPartyCode, ThirdPartyError

POLICY_ERROR = "policy_error"
"""Failure code of a record for which a policy built no messages."""


def policy_messages(policy: Any, case: Case, *, attachments: Mapping[str, str]) -> tuple[Message, ...]:
    """Call the policy for the candidate's messages; raises GradingFailure when it raises, or returns none."""
    try:
        with ThirdPartyCode():
            takes_attachments = "attachments" in inspect.signature(policy).parameters
            _check_attachments(case, takes_attachments=takes_attachments)
            returned = policy(case, attachments=dict(attachments)) if takes_attachments else policy(case)
    except ThirdPartyError as failure:
        raise GradingFailure(POLICY_ERROR, f"the policy raised {failure}") from failure.problem
    return _messages(returned)


def _check_attachments(case: Case, *, takes_attachments: bool) -> None:
    """Fail instead of silently dropping attachments that the policy cannot take."""
    if case.attachments and not takes_attachments:
        raise GradingFailure(POLICY_ERROR, "the record has attachments, and the policy has no parameter 'attachments' for them")


def _messages(returned: object) -> tuple[Message, ...]:
    if isinstance(returned, str):
        return (Message("user", returned),)
    try:
        messages = msgspec.convert(msgspec.to_builtins(returned), tuple[Message, ...])
    except (msgspec.ValidationError, TypeError) as problem:
        raise GradingFailure(POLICY_ERROR, f"what the policy returned are no messages: {problem}") from None
    if not messages:
        raise GradingFailure(POLICY_ERROR, "the policy returned no messages")
    return messages
