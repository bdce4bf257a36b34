"""Writes the DeepEval files of the fixtures: `python make_deepeval.py FOLDER`, in an environment that has deepeval.

Nothing leaves the machine: telemetry is off, and the metrics are our own, without a model.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

os.environ |= {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "ERROR_REPORTING": "0",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "CONFIDENT_TRACING_ENABLED": "0",
}

from deepeval import evaluate  # after the settings that keep it at home
from deepeval.dataset import EvaluationDataset, Golden
from deepeval.evaluate.configs import AsyncConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

CASES = [
    LLMTestCase(
        name="refund",
        input="How long can I return shoes?",
        actual_output="You can return them for 30 days.",
        expected_output="30 days",
        retrieval_context=["Shoes can be returned for 30 days."],
        context=["Returns: 30 days for all shoes."],
    ),
    LLMTestCase(name="hours", input="When do you open?", actual_output="At noon.", expected_output="9 am"),
    LLMTestCase(name="broken", input="Is this broken?", actual_output="Yes.", expected_output="No."),
]


class Contains(BaseMetric):
    """1 where the expected words are in the answer."""

    threshold = 0.5
    async_mode = False

    def measure(self, test_case: LLMTestCase, *_: object, **__: object) -> float:
        if test_case.name == "broken":
            raise RuntimeError("the metric is broken")
        self.score = float(test_case.expected_output in test_case.actual_output)
        self.reason = "the words are there" if self.score else "the words are missing"
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case: LLMTestCase, *_: object, **__: object) -> float:
        return self.measure(test_case)

    def is_successful(self) -> bool:
        return bool(self.success)

    @property
    def __name__(self) -> str:
        return "Contains"


class Brevity(Contains):
    """The fewer words the better."""

    def measure(self, test_case: LLMTestCase, *_: object, **__: object) -> float:
        self.score = round(1 / len(test_case.actual_output.split()), 3)
        self.reason = f"{len(test_case.actual_output.split())} words"
        self.success = self.score >= self.threshold
        return self.score

    @property
    def __name__(self) -> str:
        return "Brevity"


def main(folder: Path) -> None:
    """A dataset of goldens in three forms, and a test run."""
    goldens = [
        Golden(input=case.input, expected_output=case.expected_output, context=case.context, name=case.name) for case in CASES
    ]
    dataset = EvaluationDataset(goldens=goldens)
    for form in ("json", "csv", "jsonl"):
        dataset.save_as(file_type=form, directory=str(folder), file_name="deepeval_goldens")
    place = folder.resolve()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        evaluate(
            CASES,
            [Contains(), Brevity()],
            async_config=AsyncConfig(run_async=False),
            display_config=DisplayConfig(show_indicator=False, print_results=False, results_folder="results"),
            error_config=ErrorConfig(ignore_errors=True),
        )
        [written] = (Path(work) / "results").rglob("*.json")
        shutil.copy(written, place / "deepeval_test_run.json")
        os.chdir(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
