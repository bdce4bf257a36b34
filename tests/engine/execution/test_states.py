"""States of a run that retries."""

from pathlib import Path

from assay.engine.execution.run_context import InFlightRecords
from tests.engine.execution.test_faults import DOWN, candidate_says, good, played, states


def test_a_run_enters_retrying_when_only_retries_are_left(tmp_path: Path) -> None:
    result, _ = played(tmp_path, candidate_says(DOWN, good("candidate", "0", 1)))
    assert states(result) == ["queued", "validating", "running", "retrying", "finalizing", "completed_with_failures"]


def test_a_run_without_retries_never_enters_retrying(tmp_path: Path) -> None:
    result, _ = played(tmp_path, good, records=30)
    assert states(result) == ["queued", "validating", "running", "finalizing", "completed_with_failures"]


def test_a_crew_is_not_retrying_while_another_record_has_its_first_round() -> None:
    in_flight = InFlightRecords(4)
    in_flight.add_shard([10, 10])
    in_flight.complete()
    in_flight.begin_retries()
    assert not in_flight.only_retries.is_set()
    in_flight.end_rounds(is_retrying=False)
    assert in_flight.only_retries.is_set()
