"""What other frameworks pay for the same job, beside the bare loop and assay; nothing here is asserted.

Each is installed into an environment of its own (`install.py`) and cannot reach any network but loopback, where the system allows
that. Results are kept in bench/results/peers.jsonl as they come: what was interrupted goes on where it stopped, a larger `--limit`
measures what had too little time, `--again` repeats measurements, and `--write` updates
docs/explanation/comparison-with-other-tools.md.
"""

import argparse
import datetime
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cases import cases_file
from install import PROMPTFOO, NotInstalled, installed, locked_version
from measure import HERE, Cost, Provider, measure, provider
from page import machine_line, version_of
from peers_page import Kept, Result, report, write_peers_page
from run import ASSAY, BARE, CONCURRENCY, RESULTS, Contestant, assay_run, bare_loop, called, folder, shape_file
from validate import show_progress

KEPT = RESULTS / "peers.jsonl"
QUICK = RESULTS / "peers-quick.jsonl"
OURS = (BARE, ASSAY)
CASES = (2_000, 20_000)
LATENCIES = (0, 200)
LIMIT = 300.0
ROOM = 0.9
"""Share of the limit that a run may be expected to take."""
ROUND = 1_000
ALONE = "BENCH_IS_ALONE"
START_TURNS = 5


class Peer(NamedTuple):
    """Another framework: its environment, what its distribution, module and command are called, and who drives it."""

    environment: str
    distribution: str
    driver: str
    module: str = ""
    command: str = ""


PEERS = {
    "DeepEval": Peer("deepeval", "deepeval", "with_deepeval.py", "deepeval", "deepeval"),
    "pydantic-evals": Peer("pydantic-evals", "pydantic-evals", "with_pydantic_evals.py", "pydantic_evals"),
    "promptfoo": Peer(PROMPTFOO, "promptfoo", "with_promptfoo.py", "", "promptfoo"),
    "Inspect AI": Peer("inspect", "inspect-ai", "with_inspect.py", "inspect_ai", "inspect"),
    "MLflow": Peer("mlflow", "mlflow", "with_mlflow.py", "mlflow", "mlflow"),
}


class Settings(NamedTuple):
    """What is measured."""

    who: list[str]
    cases: list[int]
    latencies: list[int]
    """Milliseconds that the provider takes for each call."""
    limit: float
    """Seconds after which a run of a peer is stopped."""
    repeat: int
    """Runs of the bare loop and of assay, of which the smallest counts; peers run once."""


def main() -> None:
    """Install, measure and print."""
    options = parsed()
    settings = Settings(
        who=options.only or [*OURS, *PEERS],
        cases=sorted(options.cases or ([200] if options.quick else CASES)),
        latencies=sorted(options.latency or ([0] if options.quick else LATENCIES)),
        limit=options.limit,
        repeat=1 if options.quick else options.repeat,
    )
    places = environments([name for name in settings.who if name in PEERS])
    go_alone()
    kept = Kept(options.results or (QUICK if options.quick else KEPT))
    if options.again or options.quick:
        kept.forget(settings.who)
    measure_starts(settings, places, kept)
    measure_runs(settings, places, kept)
    show_progress("")
    print(report(kept.results).text)
    print(f"kept in {kept.path}")
    if options.write:
        print(f"wrote {write_peers_page(kept.results)}")


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="bench peers", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200 cases, once, to a provider that answers at once")
    parser.add_argument(
        "--only", action="append", choices=(*OURS, *PEERS), metavar="NAME", help=f"{', '.join((*OURS, *PEERS))}; may be repeated"
    )
    parser.add_argument(
        "--cases", action="append", type=int, metavar="N", help="so many cases; may be repeated (default 2000 and 20000)"
    )
    parser.add_argument(
        "--latency", action="append", type=int, metavar="MS", help="of every call; may be repeated (default 0 and 200)"
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT, metavar="S", help=f"stop a run of a peer after so long (default {LIMIT:g})"
    )
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of the bare loop and of assay (default 3)")
    parser.add_argument("--again", action="store_true", help="forget what was kept of those that are measured")
    parser.add_argument("--results", type=Path, metavar="FILE", help="keep results there instead of below bench/results")
    parser.add_argument(
        "--write", action="store_true", help="renew docs/explanation/comparison-with-other-tools.md with all that is kept"
    )
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("the page shows whole measurements: --write goes without --quick")
    return options


def environments(names: list[str]) -> dict[str, Path]:
    """Where each peer is installed; who cannot be installed is told and left out."""
    found = {}
    for name in names:
        try:
            found[name] = installed(PEERS[name].environment)
        except NotInstalled as problem:
            print(f"{name} takes no part: {problem}", file=sys.stderr)
    return found


def go_alone() -> None:
    """Start this program again where there is no network but loopback, if the system allows it."""
    if ALONE in os.environ or not shutil.which("unshare"):
        return
    for options in (["--net"], ["--map-root-user", "--net"]):
        command = ["unshare", *options, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        if subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0:
            again = [*command, sys.executable, *sys.argv]
            sys.exit(subprocess.run(again, env={**os.environ, ALONE: "yes"}, check=False).returncode)


def measure_starts(settings: Settings, places: dict[str, Path], kept: Kept) -> None:
    """What somebody pays who only imports a framework, or asks its command for the version."""
    for name in settings.who:
        for start, command in starts(name, places).items():
            wanted = result(name, settings, start=start)
            if not kept.same(wanted):
                show_progress(f"{name}: {start}")
                costs = [measure(command, {"PYTHONPATH": pythonpath(name)}) for _ in range(START_TURNS)]
                kept.add(wanted._replace(cost=min(costs, key=lambda cost: cost.get("cpu", 0.0))))


def starts(name: str, places: dict[str, Path]) -> dict[str, list[object]]:
    """The commands that do nothing, by what they are called."""
    if name == ASSAY:
        command = [sys.executable, "-m", "assay", "--version"]
        return {
            "import assay": [sys.executable, "-c", "import assay"],
            "import assay, and what a run needs": [sys.executable, "-c", "import assay; assay.run, assay.validate"],
            "assay --version": command,
        }
    if name not in places:
        return {}
    peer, place = PEERS[name], places[name]
    scripts = place / "node_modules" / ".bin" if name == PROMPTFOO else place / "bin"
    found: dict[str, list[object]] = {}
    if peer.module:
        found[f"import {peer.module}"] = [scripts / "python", "-c", f"import {peer.module}"]
    if peer.command:
        node = [scripts / "node"] if name == PROMPTFOO else []
        found[f"{peer.command} --version"] = [*node, scripts / peer.command, "--version"]
    return found


def measure_runs(settings: Settings, places: dict[str, Path], kept: Kept) -> None:
    """The same job by everybody, in every size and with every latency; what is kept already is not measured again."""
    for cases in settings.cases:
        for latency in settings.latencies:
            with provider(latency / 1000) as stub, folder() as place:
                shape = shape_file(stub, place)
                for turn in range(settings.repeat):
                    for name in settings.who:
                        wanted = result(name, settings, cases=cases, latency=latency)
                        turns = settings.repeat if name in OURS else 1
                        if (name in OURS or name in places) and len(kept.same(wanted)) <= turn < turns:
                            kept.add(measured(wanted, stub, kept, start=partial(contestant, name, places, shape)))


def measured(wanted: Result, stub: Provider, kept: Kept, *, start: "partial[Contestant]") -> Result:
    """One run, over fewer cases where all of them would take longer than the limit."""
    asked = affordable(wanted, kept)
    if not asked:
        return wanted._replace(asked=0)
    show_progress(f"{wanted.who}: {asked:,} cases, {wanted.latency} ms")
    cost = called(start(cases_file(asked), wanted.limit), stub, asked)
    printed = cost.pop("output", "").split()
    # A driver that cannot be sure of all results ends with their number.
    graded = {"graded": int(printed[-1])} if wanted.who in PEERS and printed and printed[-1].isdigit() else {}
    return wanted._replace(asked=asked, cost=cost | graded)


def affordable(wanted: Result, kept: Kept) -> int:
    """How many of the wanted cases a peer can do within the limit, judged by what fewer took; 0 when not even more than those."""
    fewer = [each for each in kept.results if each.is_smaller_than(wanted) and "wall" in each.cost]
    if wanted.who in OURS or not fewer:
        return wanted.cases
    known = max(fewer, key=lambda each: each.asked)
    if "stopped" in known.cost:
        return 0
    possible = int(wanted.limit * ROOM / (known.cost["wall"] / known.asked))
    if possible >= wanted.cases:
        return wanted.cases
    rounded = possible // ROUND * ROUND
    return rounded if rounded > known.asked else 0


def contestant(name: str, places: dict[str, Path], shape: Path, dataset: Path, limit: float) -> Contestant:
    """Somebody who takes part, as a function that does the job once."""
    if name == BARE:
        return bare_loop(dataset, shape)
    if name == ASSAY:
        return lambda stub, place: assay_run(dataset, place, base_url=stub.base_url)
    python: object = places[name] / "bin" / "python"
    more: list[object] = []
    if name == PROMPTFOO:
        python, more = sys.executable, [places[name] / "node_modules"]
    start = [python, HERE / "drivers" / PEERS[name].driver, dataset]

    def run(stub: Provider, place: Path) -> Cost:
        environ = {"HOME": str(place), "PYTHONPATH": ""}
        return measure([*start, stub.base_url, str(CONCURRENCY), place, *more], environ, limit=limit)

    return run


def result(name: str, settings: Settings, *, cases: int = 0, latency: int = 0, start: str = "") -> Result:
    """What is about to be measured, without its cost."""
    return Result(
        who=name,
        version=version(name),
        start=start,
        cases=cases,
        asked=cases,
        latency=latency,
        limit=settings.limit,
        is_alone=ALONE in os.environ,
        at=datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
        machine=machine_line(),
        load=os.getloadavg()[0],
        cost={},
    )


def version(name: str) -> str:
    """Of the bare loop, that of its client."""
    if name in OURS:
        return version_of("aiohttp" if name == BARE else "assay")
    return locked_version(PEERS[name].environment, PEERS[name].distribution)


def pythonpath(name: str) -> str:
    """Peers see nothing of this repository."""
    return os.environ.get("PYTHONPATH", "") if name in OURS else ""


if __name__ == "__main__":
    main()
