"""What validation over HTTP says about who would be sent the fields of a dataset."""

from tests.engine.run_settings import batch_record
from tests.surfaces.server.serving import Serving

RECORD = {
    **batch_record("r"),
    "input": {"prompt": "p", "context": "c", "answer_key": "k"},
    "reference": {"rubric": "Be brief."},
    "metadata": {"owner": "me"},
}
DOCUMENT = {"dataset_id": "d", "dataset_version": "1", "schema_version": "1.0", "records": [RECORD]}


def test_validation_lists_what_is_not_sent_and_who_sees_open_fields(service: Serving) -> None:
    checked = service.ask("POST", "/v1/validate", DOCUMENT).json
    assert checked["not_sent"] == {"metadata": 1}
    assert checked["judge_only"] == {"input.answer_key": 1, "reference.rubric": 1}
    assert checked["candidate_and_judge"] == {"input.context": 1}
