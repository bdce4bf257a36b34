"""What a run costs beside a loop that does nothing but the calls; nothing here is asserted.

Every measurement is a fresh process from its start to its end. `--quick` takes small sizes, `--only PART` a part of the whole, and
`--write` renews docs/explanation/run-speed.md. `peers.py` measures other frameworks.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from statistics import median
from typing import NamedTuple

from cases import REFERENCE, cases_file, given_files, prompt
from measure import HERE, Cost, Provider, measure, provider
from run_page import Aim, Called, Measured, Stage, report, write_run_page
from stub import ANSWER, CANDIDATE, JUDGE
from validate import over, show_progress, smaller
from where import parts_table

RESULTS = HERE / "results"
BARE = "bare loop"
ASSAY = "assay"
CONCURRENCY = 64
Contestant = Callable[[Provider, Path], Cost]
"""Does the job once against a provider, and leaves what it leaves in a folder; settings that it was given there are in `given`."""
KEY = "sk-5f1d0c27e9b84a6380c2d7f4"
"""As long as keys are, and in no reply: one that is also a word of the replies would have to be redacted in every record."""
MILLION = 1_000_000
TURNS = 3
"""Pairs of runs for each repetition: minutes in which the machine is slower than in others must not decide."""


class Sizes(NamedTuple):
    """How many records each part takes."""

    calls: int = 2_000
    few: int = 5_000
    many: int = 20_000
    waiting: int = 2_000
    """Records of the run that waits for its provider."""
    slots: int = 200
    """Calls in flight of that run."""
    latency: float = 1.0
    medium: int = 10_000
    large: int = 50_000
    few_given: int = 10_000
    """Questions of multiple choice whose answers are given."""
    many_given: int = 350_000


QUICK = Sizes(calls=300, few=500, many=2_000, waiting=1_000, medium=1_000, large=5_000, few_given=1_000, many_given=10_000)


class Bench(NamedTuple):
    """The settings of a benchmark."""

    sizes: Sizes
    repeat: int


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes: the ratios are rough")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="the smallest of N measurements counts (default 3)")
    parser.add_argument("--only", action="append", choices=tuple(PARTS), help="this part; may be repeated")
    parser.add_argument("--write", action="store_true", help="renew docs/explanation/run-speed.md with the result")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("the page shows all parts: --write goes without --only")
    bench = Bench(QUICK if options.quick else Sizes(), options.repeat)
    measured = Measured()
    for name in options.only or PARTS:
        PARTS[name](bench, measured)
    show_progress("")
    page = report(measured)
    print(page.text)
    if options.write:
        print(f"wrote {write_run_page(page, repeat=options.repeat, parts=parts_table())}")


def calls(bench: Bench, measured: Measured) -> None:
    """The same calls by the bare loop and by assay, to a provider that answers at once."""
    count = bench.sizes.calls
    with provider() as stub, folder() as place:
        shape = shape_file(stub, place)
        dataset = cases_file(count)
        runs: dict[str, Contestant] = {
            BARE: bare_loop(dataset, shape),
            ASSAY: lambda stub, place: assay_run(dataset, place, base_url=stub.base_url),
        }
        turns: list[dict[str, Cost]] = []
        for turn in range(TURNS * bench.repeat):
            show_progress(f"turn {turn + 1} of {TURNS * bench.repeat}: {count:,} cases")
            turns.append({name: called(run, stub, count) for name, run in runs.items()})
    measured.called = [Called(name, count, best([turn[name] for turn in turns])) for name in runs]
    ratios = [over(turn[ASSAY], turn[BARE]) for turn in turns]
    known = [ratio for ratio in ratios if ratio is not None]
    measured.aims.append(Aim(f"run of {count:,} cases, CPU / bare loop", 1.6, median(known) if known else None))


def bare_loop(dataset: Path, shape: Path) -> Contestant:
    """The loop that does nothing but the calls, with bodies of that shape."""
    start = [sys.executable, HERE / "drivers" / "bare_loop.py", dataset]
    return lambda stub, place: measure([*start, stub.base_url, str(CONCURRENCY), place, shape])


def called(run: Contestant, stub: Provider, count: int) -> Cost:
    """One measurement, with what arrived at the provider and what is left on the disk; a job that is not done has no cost."""
    with folder() as place:
        stub.received()
        cost = run(stub, place)
        seen = stub.received()
        left = sum(file.stat().st_size for file in place.rglob("*") if file.is_file() and "given" not in file.parts)
    if "cpu" in cost and "stopped" not in cost and (seen["candidate"], seen["judge"]) != (count, count):
        return {"refused": f"made {seen['candidate']} and {seen['judge']} of {count} calls"}
    return {**cost, "left": left, **{name: seen[name] for name in ("candidate", "judge", "bytes", "in_flight")}}


def assay_run(dataset: Path, place: Path, *, base_url: str = "", slots: int = CONCURRENCY) -> Cost:
    """`assay run`; without an address scripted models answer in the same process."""
    models = (f"openai/{CANDIDATE}", f"openai/{JUDGE}") if base_url else (f"scripted/say-{ANSWER}", "scripted/judge-4")
    options = ["--model", models[0], "--judge", models[1], "--concurrency", str(slots), "--json"]
    command = [sys.executable, "-m", "assay", "run", dataset, *options, "--run-id", "bench", "--runs-dir", place / "runs"]
    return measure(command, {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": KEY})


def shape_file(stub: Provider, place: Path) -> Path:
    """The bodies that assay sends for the first case, with marks where its texts stand."""
    stub.received()
    done(assay_run(cases_file(1), place, base_url=stub.base_url))
    seen = stub.received()
    shapes = {stage: json.loads(seen[f"{stage}_body"]) for stage in ("candidate", "judge")}
    for shape in shapes.values():
        for message in shape["messages"]:
            for name, text in (("prompt", prompt(0)), ("reference", REFERENCE), ("answer", ANSWER)):
                message["content"] = message["content"].replace(text, f"<<{name}>>")
    path = place / "shape.json"
    path.write_text(json.dumps(shapes), encoding="utf-8")
    return path


def records(bench: Bench, measured: Measured) -> None:
    """What one more record costs without its calls: by stages, and as a whole run with models in the same process."""
    few, many = bench.sizes.few, bench.sizes.many
    spent: dict[int, dict[str, float]] = {few: {}, many: {}}
    for turn in range(bench.repeat):
        for count in (few, many):
            show_progress(f"round {turn + 1} of {bench.repeat}: {count:,} records without calls")
            for name, seconds in (stages(count) | {"whole": whole_run(count)}).items():
                spent[count][name] = min(seconds, spent[count].get(name, seconds))
    each = {name: (spent[many][name] - spent[few][name]) / (many - few) * MILLION for name in spent[few]}
    measured.stages = [Stage(name, each[name]) for name in each]
    measured.span = f"{few:,} and {many:,}"
    measured.aims.append(Aim("one more record in the ledger, µs CPU", 40, each["append"]))


def stages(count: int) -> dict[str, float]:
    """CPU seconds of the stages of a run but for its calls."""
    with folder() as place:
        cost = done(measure([sys.executable, HERE / "run_tasks.py", str(count), place]))
    spent: dict[str, float] = json.loads(cost["output"])
    return spent


def whole_run(count: int) -> float:
    """CPU seconds of a run whose models answer in the same process."""
    with folder() as place:
        return float(done(assay_run(cases_file(count), place))["cpu"])


def latency(bench: Bench, measured: Measured) -> None:
    """How much of the time goes to waiting for a slow provider, which is all that should take time."""
    sizes = bench.sizes
    with provider(sizes.latency) as stub, folder() as place:
        show_progress(f"{sizes.waiting:,} records, {sizes.slots} calls in flight, {sizes.latency:g} s each")
        cost = assay_run(cases_file(sizes.waiting), place, base_url=stub.base_url, slots=sizes.slots)
    ideal = 2 * sizes.waiting / sizes.slots * sizes.latency
    share = ideal / cost["wall"] if "wall" in cost else None
    name = f"ideal / actual wall, {sizes.slots} calls of {sizes.latency:g} s in flight, {sizes.waiting:,} records"
    measured.aims.append(Aim(name, 0.9, share, is_least=True))


def large(bench: Bench, measured: Measured) -> None:
    """Memory of a large run, its end, and what it takes to look at it."""
    medium, most = bench.sizes.medium, bench.sizes.large
    with provider() as stub:
        with folder() as place:
            show_progress(f"a run of {medium:,} records")
            smaller_run = assay_run(cases_file(medium), place, base_url=stub.base_url)
        with folder() as place:
            show_progress(f"a run of {most:,} records")
            larger_run = assay_run(cases_file(most), place, base_url=stub.base_url)
            show = [sys.executable, "-m", "assay", "show", "bench", "--runs-dir", place / "runs"]
            shown = best([measure(show) for _ in range(bench.repeat)])
    show_progress(f"the end of a run of {most:,} records")
    finalised = min(stages(most)["finalise"] for _ in range(bench.repeat))
    measured.aims += [
        Aim(f"peak memory at {most:,} / at {medium:,} records", 1.5, over(larger_run, smaller_run, "memory")),
        Aim(f"finalise {most:,} records, CPU s", 5.0, finalised),
        Aim(f"show a finished run of {most:,} records, wall s", 1.0, shown.get("wall")),
    ]
    measured.memory = [(count, cost.get("memory")) for count, cost in ((medium, smaller_run), (most, larger_run))]


def mcq(bench: Bench, measured: Measured) -> None:
    """Questions of multiple choice with given answers: nobody is asked, so that all the time is ours, and memory should be flat."""
    few, many = bench.sizes.few_given, bench.sizes.many_given
    costs = {count: given_run(count) for count in (few, many)}
    measured.given = [(count, cost) for count, cost in costs.items() if "cpu" in cost]
    measured.aims += [
        Aim(f"grade {many:,} given answers, CPU s", 60.0, costs[many].get("cpu")),
        Aim(f"peak memory at {many:,} / at {few:,} given answers", 1.5, over(costs[many], costs[few], "memory")),
    ]


def given_run(count: int) -> Cost:
    """`assay run` over questions whose answers are given."""
    questions, answers = given_files(count)
    show_progress(f"{count:,} given answers")
    with folder() as place:
        options = ["--responses", answers, "--json", "--run-id", "bench", "--runs-dir", place / "runs"]
        return measure([sys.executable, "-m", "assay", "run", questions, *options])


def start(bench: Bench, measured: Measured) -> None:
    """What somebody pays who only asks for the version."""
    cost = best([measure([sys.executable, "-m", "assay", "--version"]) for _ in range(2 * bench.repeat)])
    measured.aims.append(Aim("assay --version, CPU s", 0.2, cost.get("cpu")))


PARTS: dict[str, Callable[[Bench, Measured], None]] = {
    "calls": calls,
    "records": records,
    "latency": latency,
    "large": large,
    "mcq": mcq,
    "start": start,
}


@contextmanager
def folder() -> Iterator[Path]:
    """An empty folder on the disk that the repository is on; a temporary file system would make syncing free."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS) as place:
        yield Path(place)


def done(cost: Cost) -> Cost:
    """The cost of something without which there is nothing to measure."""
    if "refused" in cost:
        sys.exit(f"assay cannot run: {cost['refused']}")
    return cost


def best(costs: list[Cost]) -> Cost:
    """The smallest of several measurements, each figure for itself."""
    return reduce(smaller, costs)


if __name__ == "__main__":
    main()
