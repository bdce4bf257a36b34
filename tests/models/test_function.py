"""Functions as models: what they are given, what they may return, and how they fail."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import assay
from tests.plugins import functions
from tests.plugins.datasets import attempts, predictions, run_words, words
from tests.plugins.functions import is_reference, last_word
from tests.plugins.test_functions import _run_file


def test_a_function_answers_and_a_function_grades(tmp_path: Path) -> None:
    result = run_words(tmp_path, model=last_word, grader=is_reference)
    assert result.state == "completed"
    assert result.metrics["pass_rate"] == 1
    assert result.candidate == "function/tests.plugins.functions:last_word"


def test_a_plain_function_runs_beside_the_event_loop(tmp_path: Path) -> None:
    functions.THREADS.clear()
    run_words(tmp_path, model=last_word, grader=is_reference)
    assert {"assay-function"} == functions.THREADS
    assert threading.main_thread().name not in functions.THREADS


def test_functions_that_block_run_side_by_side(tmp_path: Path) -> None:
    together = threading.Barrier(5, timeout=60)
    result = run_words(tmp_path, 5, model=lambda _: str(together.wait()), grader=lambda *_: True)
    assert sorted(line["model_response"] for line in predictions(result)) == ["0", "1", "2", "3", "4"]


def test_an_async_function_and_one_that_takes_the_ask_answer_too(tmp_path: Path) -> None:
    slow = run_words(tmp_path, model=functions.slow_echo, grader=lambda record, answer: answer == record.prompt)
    asked = run_words(tmp_path, model=lambda ask: ask.call_id, grader=lambda _, answer: answer == "candidate")
    assert (slow.metrics["pass_rate"], asked.metrics["pass_rate"]) == (1, 1)


def test_a_reply_keeps_what_the_function_says_of_it(tmp_path: Path) -> None:
    told = assay.Reply(text="word0", finish_reason="length", model="tiny-1", flags=("truncated",))
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: told, grader=is_reference))
    assert (line["passed"], line["flags"], line["finish_reason"]) == (True, ["truncated"], "length")


def test_a_model_that_raises_is_a_failed_attempt_and_no_score(tmp_path: Path) -> None:
    def broken(_: Any) -> str:
        raise ValueError("no idea")

    result = run_words(tmp_path, 1, model=broken, grader=is_reference)
    (line,), (attempt,) = predictions(result), attempts(result)
    assert (line["status"], line["error_code"], line["score"]) == ("evaluation_error", "model_error", None)
    assert "ValueError: no idea (test_function.py:" in line["error_message"]
    assert attempt["error_code"] == "model_error"


def test_a_model_that_cannot_connect_is_asked_again(tmp_path: Path) -> None:
    refused = iter([ConnectionRefusedError("nobody there")])

    def at_last(_: Any) -> str:
        for problem in refused:
            raise problem
        return "word0"

    result = run_words(tmp_path, 1, model=at_last, grader=is_reference, run_file=_impatient(tmp_path))
    assert [attempt["error_code"] for attempt in attempts(result)] == ["service_unavailable", None, None]
    assert result.metrics["pass_rate"] == 1


def test_a_model_that_says_how_it_fails_is_believed(tmp_path: Path) -> None:
    def filtered(_: Any) -> str:
        raise assay.ModelFailure("content_filtered", "we do not talk about that")

    (line,) = predictions(run_words(tmp_path, 1, model=filtered, grader=is_reference))
    assert (line["error_code"], line["error_message"]) == ("content_filtered", "we do not talk about that")


@pytest.mark.parametrize(("said", "code"), [(None, "invalid_reply"), (7, "invalid_reply"), (b"word0", "invalid_reply")])
def test_a_model_that_returns_no_text_has_failed(tmp_path: Path, said: Any, code: str) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: said, grader=is_reference))
    assert (line["error_code"], line["score"]) == (code, None)


def test_steps_that_are_no_json_have_failed(tmp_path: Path) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: assay.Reply(text="x", steps=(object(),)), grader=is_reference))
    assert (line["error_code"], line["score"]) == ("invalid_reply", None)


def test_half_characters_and_nuls_of_a_model_are_replaced_and_flagged(tmp_path: Path) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: "a\ud800b\x00c", grader=lambda *_: True))
    assert (line["model_response"], line["flags"]) == ("a?b\ufffdc", ["replaced_characters"])


def test_a_model_that_wants_to_end_the_process_ends_only_its_attempt(tmp_path: Path) -> None:
    (line,) = predictions(run_words(tmp_path, 1, model=lambda _: sys.exit("bye"), grader=is_reference))
    assert (line["error_code"], line["status"]) == ("model_error", "evaluation_error")


def test_a_function_that_never_returns_ends_in_a_timeout(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("retry: {max_attempts: 1}\nproviders: [{name: function, timeout: 0.05}]\n", encoding="utf-8")
    forever = threading.Event()
    (result,) = _run_file(run_file, words(tmp_path, 1), model=lambda _: forever.wait(), grader=is_reference)
    forever.set()
    assert [line["status"] for line in predictions(result)] == ["timeout"]


def _impatient(folder: Path) -> str:
    path = folder / "quick.yaml"
    path.write_text("retry: {base_delay: 0.0}\n", encoding="utf-8")
    return str(path)
