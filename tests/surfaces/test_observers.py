"""Observers of runs: plain functions too, told once of every record."""

import pytest

from assay import api

pytestmark = pytest.mark.usefixtures("workplace")


def test_what_an_observer_raises_ends_the_run_which_can_go_on() -> None:
    def observe(seen: api.RecordEvent) -> None:
        raise LookupError(seen.record_id)

    with pytest.raises(LookupError, match="sum-"):
        api.run("golden.json", model="scripted/echo", judge="scripted/judge-5", run_id="watched", observe=observe)
    assert api.resume("watched").counts.evaluated_records == 5


def test_a_resumed_run_tells_of_every_record_once_with_its_earlier_calls() -> None:
    told: list[api.RecordEvent] = []
    stopping = {"model": "scripted/slow-200", "judge": "scripted/judge-5", "run_id": "halves", "concurrency": 1}
    api.run("golden.json", observe=told.append, is_stopping=lambda: len(told) >= 1, **stopping)
    before = len(told)
    api.resume("halves", observe=told.append)
    assert 1 <= before < 5
    assert sorted(record.record_id for record in told) == [f"sum-{number}" for number in range(1, 6)]
    assert {tuple(call.stage for call in record.calls) for record in told} == {("candidate", "judge")}
