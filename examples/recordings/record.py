"""Make `demo.jsonl` of `answers.yaml`: drive the real grading of each example, and note every reply under the hash of its messages.

    python examples/recordings/record.py

Run it again after a change of the answers, of an example dataset or of a prompt; a test says when that is due.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from assay.core.case import Case
from assay.core.model_call import ModelRequest, Reply, Usage
from assay.core.outcome import GradingFailure
from assay.datasets.parsing.strict_yaml import parse_yaml
from assay.engine.planning.attachments import read_attachment
from assay.engine.planning.dataset_inputs import DatasetInput, cases_of, dataset_plan, read_dataset
from assay.engine.planning.trajectories import recorded_answers
from assay.grading import GradingSettings, start
from assay.models import messages_sha256

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.yaml"
RECORDING = HERE / "demo.jsonl"
LABEL = "recorded-by-hand"
"""What every reply names as its model, so that nobody takes it for one."""
CHARACTERS_PER_TOKEN = 4
"""A rule of thumb: nobody counted these tokens."""

Said = str | dict[str, Any]


class Written(msgspec.Struct, forbid_unknown_fields=True):
    """What was written for one record."""

    answer: str = ""
    judge: dict[str, Said | list[Said]] = {}
    """By criterion; a list holds the first reply and the one after the judge was asked again."""


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """One candidate's answers to one dataset, with the judge's replies."""

    dataset: str
    replies: dict[str, Written]
    candidate: str = ""
    """Empty where the replies of a recorded conversation are judged."""


def record(answers: Path = ANSWERS) -> str:
    """The whole recording, as JSON Lines."""
    parts = msgspec.convert(parse_yaml(answers.read_bytes()).value, list[Part])
    lines = dict.fromkeys(msgspec.json.encode(line).decode() for part in parts for line in _lines_of_part(part))
    return "".join(f"{line}\n" for line in lines)


def _lines_of_part(part: Part) -> Iterator[dict[str, Any]]:
    dataset = _dataset(HERE.parent / part.dataset)
    recorded = {} if part.candidate else recorded_answers(dataset.report.records)
    spoken = {name: Reply(text=one.text, tool_calls=one.tool_calls, steps=one.steps) for name, one in recorded.items()}
    settings = GradingSettings(candidate=part.candidate, judges=("judge",))
    cases = list(cases_of(dataset, is_recorded=not part.candidate))
    strangers = {case.id for case in cases} ^ set(part.replies)
    if strangers:
        raise SystemExit(f"the answers and {part.dataset} do not have the same records: {', '.join(sorted(strangers))}")
    for case in cases:
        written = part.replies[case.id]
        attachments = {one.path: read_attachment(Path(dataset.plan.path).parent, one.path) for one in case.attachments}
        for ask, text in _conversation(case, _Speaker(written, spoken.get(case.id)), settings, attachments=attachments):
            # Replies of a recorded conversation stand in the dataset: nobody asks for them.
            if part.candidate or ask.stage == "judge":
                yield _line(ask, text)


def _dataset(path: Path) -> DatasetInput:
    source, report = read_dataset(path)
    return DatasetInput(dataset_plan(source, report, name=path.stem), source, report)


class _Speaker:
    """Says what was written for a record, whoever is asked."""

    def __init__(self, written: Written, spoken: Reply | None) -> None:
        self._written = written
        self._answer = Reply(text=written.answer) if spoken is None else spoken

    def says(self, ask: ModelRequest) -> Reply:
        if ask.stage == "candidate":
            return self._answer
        _, criterion, *again = ask.call_id.split(":")
        said = self._written.judge[criterion]
        words = said[len(again)] if isinstance(said, list) else said
        return Reply(text=words if isinstance(words, str) else msgspec.json.encode(words).decode())


def _conversation(
    case: Case, speaker: _Speaker, settings: GradingSettings, *, attachments: Mapping[str, str]
) -> Iterator[tuple[ModelRequest, str]]:
    """Everything that is asked about a case, with the reply to it."""
    flow = start(case, settings, attachments=attachments)
    asks = next(flow)
    while True:
        replies = [speaker.says(ask) for ask in asks]
        yield from zip(asks, (reply.text for reply in replies), strict=True)
        try:
            asks = flow.send(tuple(replies))
        except (StopIteration, GradingFailure):
            return


def _line(ask: ModelRequest, text: str) -> dict[str, Any]:
    asked, said = sum(_tokens(message.content) for message in ask.messages), _tokens(text)
    usage = Usage(input_tokens=asked, output_tokens=said, total_tokens=asked + said)
    reply = Reply(text=text, finish_reason="stop", usage=usage, model=LABEL)
    return {"messages_sha256": messages_sha256(ask.messages), "model": ask.model, "reply": reply}


def _tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


if __name__ == "__main__":
    RECORDING.write_text(record(), encoding="utf-8")
    print(f"{RECORDING.name}: {len(RECORDING.read_bytes().splitlines())} replies")
