"""The fast path of batch_v1 and its exact rules agree: what it accepts has no issue, and the same hash."""

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given

from assay.core.strict_json import parse_json
from assay.datasets.batch_v1 import fast as batch_fast
from assay.datasets.batch_v1.rules import CheckedRecord
from tests.datasets.test_reader_agreement import DEFAULT, EXAMPLES, RECORDS, exact_record, rfc8785_digest, seeds
from tests.mutants import mutant_of


def lane_verdicts(raws: list[bytes], *, suspects: frozenset[int]) -> list[batch_fast.CleanRecord | None]:
    batches = batch_fast.clean_records([msgspec.Raw(raw) for raw in raws], suspects=suspects)
    return [verdict for batch in batches for verdict in batch]


@pytest.mark.parametrize("record", RECORDS)
def test_the_fast_path_takes_a_clean_record(record: dict[str, Any]) -> None:
    [clean] = lane_verdicts([msgspec.json.encode(record)], suspects=frozenset())
    assert clean is not None
    assert (clean.record_id, clean.digest) == (record["record_id"], rfc8785_digest(record))


@given(seeds)
@EXAMPLES
def test_a_record_that_the_fast_path_takes_has_no_finding_and_the_hash_of_rfc8785(seed: int) -> None:
    random = Random(seed)
    raws = [mutant_of(random.choice(RECORDS), random) for _ in range(8)]
    verdicts = lane_verdicts(raws, suspects=frozenset())
    for index, (raw, verdict) in enumerate(zip(raws, verdicts, strict=True)):
        found, value = exact_record(raw, index)
        assert verdict is None or (found, verdict.digest) == ([], rfc8785_digest(value))


@given(seeds)
@EXAMPLES
def test_the_text_of_a_record_spares_checks_and_changes_no_finding(seed: int) -> None:
    random = Random(seed)
    documents = [parse_json(mutant_of(random.choice(RECORDS), random)) for _ in range(8)]
    for document in documents:
        spared = CheckedRecord(document.value, ("records", 0), DEFAULT, text=document.text)
        complete = CheckedRecord(document.value, ("records", 0), DEFAULT)
        assert spared.found == complete.found
        assert (spared.value, spared.is_normalized) == (complete.value, complete.is_normalized)


@given(seeds)
@EXAMPLES
def test_a_suspect_is_never_taken_by_the_fast_path(seed: int) -> None:
    random = Random(seed)
    raws = [mutant_of(random.choice(RECORDS), random, most=1) for _ in range(4)]
    suspects = frozenset(position for position in range(4) if random.random() < 0.5)
    verdicts = lane_verdicts(raws, suspects=suspects)
    assert [verdicts[position] for position in suspects] == [None] * len(suspects)
