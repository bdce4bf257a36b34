"""Writes the Inspect AI logs of the fixtures: `python make_inspect.py FOLDER`, in an environment that has inspect_ai.

No model is called: mockllm answers from a list. The tasks are tiny and our own.
"""

import sys
from pathlib import Path

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, choice, includes, mean, scorer, stderr
from inspect_ai.solver import generate, multiple_choice, solver

QUESTIONS = [
    Sample(id="capital-fr", input="What is the capital of France?", target="Paris", metadata={"topic": "geography"}),
    Sample(id="capital-de", input="What is the capital of Germany?", target="Berlin", metadata={"topic": "geography"}),
    Sample(id=3, input="How many sides has a hexagon?", target=["6", "six"], metadata={"topic": "geometry"}),
    Sample(id="broken", input="This one always fails.", target="never"),
    Sample(id="unscored", input="Nobody can score this.", target="unknown"),
]
ANSWERS = [
    ["The capital is Paris.", "I believe it is Munich.", "A hexagon has 6 sides.", "Who knows?"],
    ["Paris", "Berlin", "Five.", "Nobody."],
]
"""What the model says, epoch by epoch; the broken question never reaches it."""


@scorer(metrics=[accuracy(), stderr()])
def lenient():
    """Half a point for any answer that is long enough, none at all for the question that nobody can score."""

    async def score(state, target):  # noqa: ARG001  # Inspect's signature
        if state.sample_id == "unscored":
            return Score.unscored(reason="scoring_failed")
        return Score(value="P" if len(state.output.completion) > 10 else "N", explanation="by its length")

    return score


@scorer(metrics={"words": [mean()], "is_short": [mean()]})
def shape():
    """Two numbers for each answer."""

    async def score(state, target):  # noqa: ARG001  # Inspect's signature
        words = len(state.output.completion.split())
        return Score(value={"words": words, "is_short": words < 4})

    return score


@solver
def fails_on_broken():
    """Fails for one sample, so that the log has an error."""

    async def solve(state, generate):  # noqa: ARG001  # Inspect's signature
        if state.sample_id == "broken":
            raise ValueError("the tool is broken: no such tool")
        return state

    return solve


def said(text: str) -> ModelOutput:
    """An answer with token counts, so that nothing has to be counted."""
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage(input_tokens=11, output_tokens=7, total_tokens=18)
    return output


def write(task: Task, texts: list[str], place: Path) -> None:
    """Evaluate a task, and keep its log without stack traces, which name folders of this machine, and without events."""
    form = place.suffix.removeprefix(".")
    model = get_model("mockllm/model", custom_outputs=[said(text) for text in texts], memoize=False)
    settings = {"log_dir": str(place.parent), "fail_on_error": False, "display": "none", "max_samples": 1}
    [log] = inspect_ai.eval(task, model=model, log_format=form, **settings)
    whole = read_eval_log(log.location)
    for sample in whole.samples:
        sample.events = []
        if sample.error is not None:
            sample.error.traceback = sample.error.traceback_ansi = ""
    write_eval_log(whole, str(place))
    Path(log.location).unlink()


def main(folder: Path) -> None:
    """Three logs: open questions with errors and two epochs in both forms, and multiple choice."""
    solvers = [fails_on_broken(), generate()]
    scorers = [includes(), lenient(), shape()]
    capitals = Task(dataset=QUESTIONS, solver=solvers, scorer=scorers, epochs=2, name="capitals")
    for name in ("capitals.eval", "capitals.json"):
        write(capitals, [text for epoch in ANSWERS for text in epoch], folder / name)
    choices = ["Vienna", "Bern", "Prague"]
    questions = [
        Sample(id="at", input="Capital of Austria?", choices=choices, target="A"),
        Sample(id="ch", input="Capital of Switzerland?", choices=choices, target="B"),
    ]
    letters = Task(dataset=questions, solver=multiple_choice(), scorer=choice(), name="letters")
    write(letters, ["ANSWER: A", "ANSWER: C"], folder / "letters.eval")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
