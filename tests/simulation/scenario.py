"""A seed into what is decided before a history begins: records, settings, the habits of the provider, what goes wrong when."""

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec

from tests.simulation.provider import CANDIDATE, FAULTS, FINE, JUDGES, Habits
from tests.simulation.store import PROBLEMS, Fault

Row = dict[str, Any]
HOSTS = {"one": "one.openai.azure.com", "other": "other.openai.azure.com"}
"""Hosts of providers by their names; their prices are known, so that costs can be counted."""
MAX_LIVES = 5
MAX_RECORDS = 60


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset."""

    name: str
    """Of the file."""
    text: str
    valid: int
    """Records that are evaluated."""
    invalid: int = 0


Writer = Callable[[random.Random, int, int], Written]
"""Chance, a number of records and a number of criteria for each into a dataset."""


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """What ends one process before its time; nothing for one that may come to its end."""

    deadly: int | None = None
    """The point at which it is killed."""
    fault: Fault | None = None
    drained_after: float | None = None
    """Virtual seconds after which somebody stops it."""
    signals: tuple[float, ...] = ()
    """Virtual seconds after which somebody presses Ctrl-C."""
    file_fault: int | None = None
    """The file operation that fails."""
    pause: float = 0.0
    """Seconds before the next process begins."""
    jump: float = 0.0
    """By how much the clock on the wall is set in the middle of it."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is decided before a history begins."""

    dataset: str
    """Name of the file."""
    text: str
    """What is in it."""
    run_file: dict[str, Any]
    records: int
    """With all samples, the invalid ones included."""
    shard_size: int
    habits: Habits
    lives: tuple[Life, ...]
    cancel_at: float | None
    thread_seconds: tuple[float, ...]
    """How long what a thread does takes."""

    @property
    def concurrency(self) -> int:
        """Maximum concurrent calls."""
        return int(self.run_file["run"]["concurrency"])

    @property
    def has_jumps(self) -> bool:
        """True where the clock on the wall cannot be trusted."""
        return any(life.jump for life in self.lives)


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed, always the same."""
    chance = random.Random(f"scenario {seed}")
    count = min(MAX_RECORDS, 1 + int(chance.expovariate(1 / 9)))
    criteria = chance.randint(1, 3)
    written = chance.choice(tuple(_DATASETS.values()))(chance, count, criteria)
    repeat = chance.choice((1, 1, 1, 2, 3)) if written.valid <= MAX_RECORDS / 3 else 1
    return Scenario(
        dataset=written.name,
        text=written.text,
        run_file=_run_file(chance, written, repeat=repeat),
        records=written.valid * repeat + written.invalid,
        shard_size=chance.choice((1, 3, 10, 250)),
        habits=_habits(chance, criteria),
        lives=_lives(chance),
        cancel_at=chance.choice((0.0, chance.expovariate(0.2), chance.expovariate(0.02))) if chance.random() < 0.25 else None,
        thread_seconds=chance.choice(((0.0,), (0.0, 0.001), (0.0, 0.02, 0.3))),
    )


def _run_file(chance: random.Random, written: Written, *, repeat: int) -> dict[str, Any]:
    judges = chance.sample(JUDGES, chance.choice((1, 1, 2, 3)))
    asked, judging = "one", chance.choice(("one", "one", "other"))
    run: dict[str, Any] = {
        "concurrency": chance.choice((1, 2, 3, 5, 8, 16)),
        "rubric_mode": chance.choice(("per_criterion", "one_call")),
        "keep_raw": chance.random() < 0.1,
        "generation": _stage(chance),
        "judging": _stage(chance),
    }
    members: dict[str, Any] = {
        "datasets": [written.name],
        "candidates": [{"model": f"{asked}/{CANDIDATE}"}],
        "judges": [_judge(f"{judging}/{model}") for model in judges],
        "providers": [_provider(chance, name) for name in dict.fromkeys((asked, judging))],
        "run": run,
        "retry": {"max_attempts": chance.choice((3, 3, 3, 3, 1, 2, 4)), "max_delay": chance.choice((60, 60, 5))},
        "repeat": repeat,
        "on_invalid": "skip",
        "slices": ["tags", "dataset", "task_type"],
    }
    if len(judges) > 1:
        members["panel"] = {"escalate": chance.random() < 0.3, "quorum": chance.choice((None, 1, len(judges)))}
    if chance.random() < 0.25:
        # A call costs about a cent.
        members["max_cost"] = round(chance.uniform(0.0, 0.03) * written.valid * repeat, 4)
    if chance.random() < 0.15:
        members["cache"] = {"enabled": True}
    return members


def _judge(model: str) -> Row:
    return {"model": model, "extra_body": {"response_format": {"type": "json_schema"}}}


def _stage(chance: random.Random) -> Row:
    limits: Row = {}
    if chance.random() < 0.15:
        limits["concurrency"] = chance.randint(1, 4)
    if chance.random() < 0.1:
        limits["requests_per_minute"] = chance.choice((30, 120, 600))
    return limits


def _provider(chance: random.Random, name: str) -> Row:
    address, timeout = f"http://{HOSTS[name]}/v1", chance.choice((5, 20, 120))
    provider: Row = {"name": name, "kind": "openai", "base_url": address, "timeout": timeout}
    if chance.random() < 0.2:
        provider["requests_per_minute"] = chance.choice((12, 60, 240, 1000))
    if chance.random() < 0.1:
        provider["tokens_per_minute"] = chance.choice((20_000, 200_000))
    return provider


def _habits(chance: random.Random, criteria: int) -> Habits:
    """Some faults often, others rarely or never: histories differ in what goes wrong, not only in when."""
    is_calm = chance.random() < 0.2
    share = 0.0 if is_calm else chance.choice((0.1, 0.25, 0.6))
    kinds = {kind: chance.choice((0.02, 0.1, 0.3)) for kind in FAULTS if chance.random() < share}
    for rare in ("quota", "unauthorized"):
        if rare in kinds:
            kinds[rare] = 0.02
    begin = chance.expovariate(0.1)
    return Habits(
        weights={FINE: 1.0, **kinds},
        latencies=chance.choice(((0.0,), (0.01, 0.02), (0.2, 0.2, 0.2, 3.0), (0.0, 1.0), (4.0, 6.0, 30.0))),
        outages=((begin, begin + chance.expovariate(0.05)),) if chance.random() < 0.15 else (),
        refusals=chance.choice((0.0, 0.0, 0.0, 0.1)),
        silence=chance.choice((0.0, 0.0, 0.0, 0.05)),
        closes=chance.choice((0.0, 0.2, 1.0)),
        criteria=criteria,
    )


def _lives(chance: random.Random) -> tuple[Life, ...]:
    return tuple(_life(chance) for _ in range(chance.choice((0, 0, 1, 1, 2, 3, MAX_LIVES - 1))))


def _life(chance: random.Random) -> Life:
    pause, jump = chance.choice((0.0, 1.0, 30.0, 4000.0)), 0.0
    if chance.random() < 0.2:
        jump = chance.choice((-3600.0, -1.5, 3600.0, 86_400.0))
    # Small numbers are likelier, but every size occurs: most lives are short, and few are long.
    moment = int(2 ** chance.uniform(0, 9))
    match chance.choice(("kill", "kill", "kill", "fault", "fault", "torn", "file", "drain", "signals")):
        case "kill":
            return Life(deadly=moment, pause=pause, jump=jump)
        case "fault":
            return Life(fault=Fault(max(1, moment // 4), chance.choice(tuple(PROBLEMS))), pause=pause, jump=jump)
        case "torn":
            return Life(fault=Fault(max(1, moment // 4), "torn"), pause=pause, jump=jump)
        case "file":
            return Life(file_fault=max(1, moment // 8), pause=pause, jump=jump)
        case "signals":
            first = chance.expovariate(0.2)
            return Life(signals=(first, first + chance.expovariate(1.0)), pause=pause, jump=jump)
        case _:
            return Life(drained_after=chance.expovariate(0.2), pause=pause, jump=jump)


def _legal(chance: random.Random, task: str, number: int, criteria: int) -> Row:
    row: Row = {"schema_version": "legal_eval_v1", "id": f"r-{number}", "dataset": chance.choice(("law", "tax")), "task_type": task}
    row["prompt"] = f"What of [case {number}]?"
    if task == "mcq":
        return {**row, "choices": [{"id": "A", "text": "Yes"}, {"id": "B", "text": "No"}], "correct_choice_ids": ["A"]}
    if task == "reference_qa":
        return {**row, "reference_answers": [f"It is so in case {number}."]}
    rubric = [{"id": f"c{place}", "title": f"Says {place}", "weight": chance.choice((1, 2, -1))} for place in range(criteria)]
    return {**row, "rubric": rubric}


def _legal_rows(*tasks: str) -> Writer:
    def write(chance: random.Random, count: int, criteria: int) -> Written:
        rows = [_legal(chance, chance.choice(tasks), number, criteria) for number in range(count)]
        return Written(name="law.jsonl", text="".join(json.dumps(row) + "\n" for row in rows), valid=count)

    return write


def _batch(chance: random.Random, count: int, criteria: int) -> Written:
    """Some records break the contract, and some have no time for a slow answer."""
    records: list[Row] = []
    invalid = 0
    for number in range(count):
        names = chance.sample(("accuracy", "clarity", "reasoning", "factuality", "overall"), criteria)
        expected: Row = {"required_criteria": names}
        if chance.random() < 0.2:
            expected["max_latency_ms"] = chance.choice((1, 1000, 100_000))
        record: Row = {"record_id": f"r-{number}", "input": {"prompt": f"What of [case {number}]?"}, "expected": expected}
        records.append({**record, "tags": chance.choice(([], ["one"], ["one", "two"]))})
        if number and chance.random() < 0.1:
            records[-1] = {"record_id": f"r-{number}", "input": {"prompt": ""}}
            invalid += 1
    head = {"schema_version": "1.0", "dataset_id": "sim", "dataset_version": "1", "created_at": "2026-01-01T00:00:00Z"}
    return Written(name="batch.json", text=json.dumps({**head, "records": records}), valid=count - invalid, invalid=invalid)


def _golden(_: random.Random, count: int, __: int) -> Written:
    count = max(5, min(20, count))
    cases = [{"id": f"c-{n}", "user_prompt": f"What of [case {n}]?", "rubric": "It says that it is so."} for n in range(count)]
    return Written(name="golden.json", text=json.dumps({"version": "1.2.3", "cases": cases}), valid=count)


def _conversation(_: random.Random, count: int, __: int) -> Written:
    """One case for each turn of a user that a reply follows."""
    count = min(count, 20)
    turns: list[Row] = []
    for number in range(count):
        turns.append({"turn_id": 2 * number + 1, "speaker": "user", "message": f"What of [case {number}]?"})
        turns.append({"turn_id": 2 * number + 2, "speaker": "assistant", "assistant_reply": f"It is so, {number}."})
    return Written(name="conversation.json", text=json.dumps(turns), valid=count)


_DATASETS: dict[str, Writer] = {
    "mcq": _legal_rows("mcq"),
    "rubric": _legal_rows("rubric_qa"),
    "reference": _legal_rows("reference_qa"),
    "mixed": _legal_rows("mcq", "rubric_qa", "reference_qa"),
    "batch_v1": _batch,
    "golden_v1": _golden,
    "conversation_v1": _conversation,
}
