"""Random changes to central modules, one at a time in a copy of the tree, and the tests that should notice them."""

import argparse
import json
import os
import py_compile
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from tests.mutation.modules import MODULES, ROOT, SOURCE, Module
from tests.mutation.mutants import Mutant, mutants_of

MARKS = Path(__file__).with_name("equivalent.toml")
MAX_SURVIVORS = 0.05
"""The share of mutants that may survive; more are tests that are missing."""
_TEST_SECONDS = 120
"""After which a test hangs."""
_STAGE_SECONDS = 1800


class Verdict(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    killed_by: str
    """The failed test; empty for a survivor."""


def marked() -> dict[tuple[str, str, str], str]:
    """The reasons why changes are equivalent, by module and the lines before and after."""
    entries = tomllib.loads(MARKS.read_text(encoding="utf-8")).get("equivalent", [])
    return {(entry["path"], entry["was"].strip(), entry["becomes"].strip()): entry["reason"] for entry in entries}


def key_of(mutant: Mutant) -> tuple[str, str, str]:
    """By which a mutant is marked as equivalent."""
    return (mutant.path, mutant.was, mutant.becomes)


def entry_of(mutant: Mutant) -> str:
    """What marks a mutant as equivalent, but for the reason."""
    members = {"path": mutant.path, "was": mutant.was, "becomes": mutant.becomes, "reason": ""}
    return "\n".join(["[[equivalent]]", *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in members.items())])


def drawn(modules: list[Module], *, count: int, seed: int) -> list[tuple[Module, Mutant]]:
    """So many mutants, equally many of each module as far as there are, without those that are marked as equivalent."""
    equivalent, chance = marked(), random.Random(seed)
    columns = []
    for module in modules:
        mutants = mutants_of(module.path, (SOURCE / module.path).read_text(encoding="utf-8"))
        open_mutants = [mutant for mutant in mutants if key_of(mutant) not in equivalent]
        columns.append([(module, mutant) for mutant in chance.sample(open_mutants, len(open_mutants))])
    return list(islice((pair for pair in chain(*zip_longest(*columns)) if pair is not None), count))


class TreeCopy:
    """A copy of what git keeps of the tree, as it is now, in which one mutant after the other takes its module's place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        # By its time and size alone, a mutant could be taken for the one before it.
        for path in (folder / "src").rglob("*.py"):
            py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def verdict(self, module: Module, mutant: Mutant, *, stages: int) -> Verdict:
        """What the tests say about a mutant, those that are nearest first."""
        path = self.folder / "src" / "assay" / module.path
        before = path.read_bytes()
        path.write_text(mutant.source, encoding="utf-8")
        try:
            failures = (self.failure(tests) for tests in module.stages[:stages])
            return Verdict(mutant, next(filter(None, failures), ""))
        finally:
            path.write_bytes(before)

    def failure(self, tests: tuple[str, ...]) -> str:
        """The first test that fails, or what else went wrong; empty where all pass."""
        environ = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", f"--timeout={_TEST_SECONDS}"]
        with tempfile.TemporaryDirectory(prefix="assay-mutants-") as scratch:
            command = [sys.executable, "-m", "pytest", *options, f"--basetemp={scratch}/pytest", *tests]
            try:
                done = subprocess.run(
                    command, cwd=self.folder, env=environ, capture_output=True, timeout=_STAGE_SECONDS, check=False, text=True
                )
            except subprocess.TimeoutExpired:
                return f"no end after {_STAGE_SECONDS} s"
        if not done.returncode:
            return ""
        told = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return told[0] if told else f"pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]}"


def judge(pairs: list[tuple[Module, Mutant]], *, processes: int, stages: int) -> list[Verdict]:
    """Verdicts on all mutants; raises SystemExit where the tests fail without one."""
    with tempfile.TemporaryDirectory(prefix="assay-mutants-") as folder, ThreadPoolExecutor(processes) as pool:
        copies: queue.SimpleQueue[TreeCopy] = queue.SimpleQueue()
        for copy in pool.map(TreeCopy, (Path(folder) / str(number) for number in range(processes))):
            copies.put(copy)

        def lent(tests: tuple[str, ...]) -> str:
            copy = copies.get()
            try:
                return copy.failure(tests)
            finally:
                copies.put(copy)

        def told(pair: tuple[Module, Mutant]) -> Verdict:
            copy, begun = copies.get(), time.monotonic()
            try:
                verdict = copy.verdict(*pair, stages=stages)
            finally:
                copies.put(copy)
            word = "killed  " if verdict.killed_by else "SURVIVED"
            seconds = f"{time.monotonic() - begun:.0f} s"
            _say(f"{word} {_place(verdict.mutant)}  {verdict.mutant.kind}  {seconds}  {verdict.killed_by[:100]}")
            return verdict

        needed = list(dict.fromkeys(tests for module, _ in pairs for tests in module.stages[:stages]))
        failures = [failure for failure in pool.map(lent, needed) if failure]
        if failures:
            raise SystemExit("\n".join(["The tests fail without a mutant, and can tell nothing:", *failures]))
        return list(pool.map(told, pairs))


def main(arguments: list[str] | None = None) -> int:
    """Draw mutants, list the survivors; 1 when too many survive."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=120, help="mutants that are drawn (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16), help="which ones; at random by default")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="tests side by side (default: %(default)s)")
    parser.add_argument("--module", default="", help="only modules whose path contains this")
    parser.add_argument("--nearest", action="store_true", help="only the tests named after a module, not those of its area")
    chosen = parser.parse_args(arguments)
    modules = [module for module in MODULES if chosen.module in module.path]
    pairs = drawn(modules, count=chosen.count, seed=chosen.seed)
    _say(f"{len(pairs)} mutants of {len(modules)} modules, seed {chosen.seed}")
    verdicts = judge(pairs, processes=chosen.processes, stages=1 if chosen.nearest else 2)
    survivors = [verdict.mutant for verdict in verdicts if not verdict.killed_by]
    for mutant in survivors:
        _say(f"\n{_place(mutant)}  {mutant.kind}\n{mutant.diff}\n\n{entry_of(mutant)}")
    _say(
        f"\n{len(survivors)} of {len(verdicts)} mutants survived ({len(survivors) / max(1, len(verdicts)):.1%}), seed {chosen.seed}"
    )
    if survivors:
        _say(f"Write a test that notices each, or mark it in {MARKS.relative_to(ROOT)} with the reason why none can.")
    return int(len(survivors) > MAX_SURVIVORS * len(verdicts))


def _place(mutant: Mutant) -> str:
    return f"src/assay/{mutant.path}:{mutant.line}"


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # what is found is printed
