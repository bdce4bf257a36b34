"""Events of finished records, as an observer of a run gets them."""

import pytest

from assay import api

pytestmark = pytest.mark.usefixtures("workplace")


def test_a_plain_function_can_observe_a_run() -> None:
    told: list[api.RecordEvent] = []
    api.run("golden.json", model="scripted/echo", judge="scripted/judge-5", observe=told.append)
    assert [(record.record_id, record.passed, len(record.calls)) for record in told] == [(f"sum-{n}", True, 2) for n in range(1, 6)]
    assert {call.said for record in told for call in record.calls} == {""}


class Texts:
    """An observer that wants texts."""

    wants_texts = True

    def __init__(self) -> None:
        self.told: list[api.RecordEvent] = []

    def __call__(self, seen: api.RecordEvent, /) -> None:
        self.told.append(seen)


def test_texts_are_told_only_on_request_and_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-abcdef0123456789")
    observer = Texts()
    api.run("golden.json", model="scripted/say-mail jane@example.org", judge="scripted/judge-5", observe=observer)
    candidate, judge = observer.told[0].calls
    assert (candidate.stage, judge.stage) == ("candidate", "judge")
    assert all(message.content for call in (candidate, judge) for message in call.asked)
    assert candidate.said.startswith("mail ")
    assert "jane@example.org" not in str(observer.told)


def test_a_record_without_a_score_says_its_code_and_stage() -> None:
    told: list[api.RecordEvent] = []
    api.run("golden.json", model="scripted/fail-invalid_request", judge="scripted/judge-5", observe=told.append)
    assert {(record.status, record.code, record.stage, record.score) for record in told} == {
        ("evaluation_error", "invalid_request", "candidate", None)
    }
