"""What logs of Inspect AI may hold beside the usual: attachments, conversations, older members, samples in pieces."""

import json
import zipfile
from pathlib import Path
from typing import Any

from tests.integrations.importers.bringing import FIXTURES, brought, predictions_of, rows_of, run_of

LOG = json.loads((FIXTURES / "capitals.json").read_text().replace("NaN", "null"))


def written(*samples: dict[str, Any], **spec: Any) -> Path:
    """A log of samples that differ from the first one of the fixture in some members."""
    made = [{**LOG["samples"][0], "id": f"s{number}", **sample} for number, sample in enumerate(samples)]
    log = {**LOG, "eval": {**LOG["eval"], **spec}, "samples": made}
    Path("log.json").write_text(json.dumps(log))
    return Path("log.json").absolute()


def test_long_texts_are_taken_from_the_attachments() -> None:
    long = {"attachments": {"abc": "What is long?", "def": "A long answer."}, "input": "attachment://abc"}
    said = {"choices": [{"message": {"role": "assistant", "content": "tc://def"}, "stop_reason": "stop"}]}
    path = written({**long, "output": said})
    assert rows_of(path)["s0"]["prompt"] == "What is long?"
    assert predictions_of(run_of(path))["s0", 0]["model_response"] == "A long answer."


def test_a_sample_whose_attachment_is_missing_is_refused() -> None:
    report = brought(written({"input": "attachment://gone"}, {}))["report"]
    assert (report["totals"]["invalid"], report["totals"]["emitted"]) == (1, 1)
    assert "does not have the attachment 'gone'" in report["remarks"][0]["reason"]


def test_an_invalidated_sample_has_no_score() -> None:
    path = written({"invalidation": {"reason": "leaked"}}, {})
    lines = predictions_of(run_of(path))
    assert (lines["s0", 0]["error_code"], lines["s0", 0]["error_message"], lines["s0", 0]["score"]) == (
        "invalidated",
        "leaked",
        None,
    )
    assert lines["s1", 0]["score"] == 1.0


def test_errors_count_where_the_log_says_that_they_are_scored() -> None:
    failed = {"error": {"message": "late", "traceback": "", "traceback_ansi": ""}}
    assert predictions_of(run_of(written(failed)))["s0", 0]["score"] is None
    assert predictions_of(run_of(written(failed, config={"score_on_error": True})))["s0", 0]["score"] == 1.0


def test_the_one_score_of_the_first_logs_is_read() -> None:
    path = written({"scores": None, "score": {"value": "I", "explanation": "no"}})
    assert predictions_of(run_of(path, options=("--scorer", "includes")))["s0", 0]["score"] == 0.0


def test_values_that_are_no_numbers_have_no_score_and_numbers_in_words_do() -> None:
    values = ["yes", "False", "0.25", "excellent", None, [1, 0], True]
    path = written(*({"scores": {"includes": {"value": value}}} for value in values))
    scores = [line["score"] for line in predictions_of(run_of(path)).values()]
    assert scores == [1.0, 0.0, 0.25, None, None, None, 1.0]


def test_choices_without_a_letter_as_target_are_counted() -> None:
    path = written({"choices": ["a", "b"], "target": "a long text"}, {"choices": ["a", "b"], "target": ["A", "B"]})
    rows = rows_of(path)
    assert (rows["s0"]["task_type"], rows["s1"]["correct_choice_ids"]) == ("reference_qa", ["A", "B"])


def test_samples_in_pieces_are_skipped_with_a_hint() -> None:
    with zipfile.ZipFile("log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps({name: value for name, value in LOG.items() if name != "samples"}))
        archive.writestr("samples/a_epoch_1/sample.json", "{}")
        archive.writestr("samples/b_epoch_1.json", json.dumps(LOG["samples"][0]))
    report = brought(Path("log.eval").absolute())["report"]
    assert report["totals"] == {"read": 2, "emitted": 1, "invalid": 0, "skipped": 1}
    assert "inspect log convert" in report["remarks"][0]["reason"]
