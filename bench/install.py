"""An environment of its own, below bench/environments, for each tool that assay is measured beside: made when it is first needed.

Versions and hashes are in bench/locks, so that everybody gets the same; `--lock` renews them, which needs uv and npm.
"""

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from measure import HERE

LOCKS = HERE / "locks"
ENVIRONMENTS = HERE / "environments"
PROMPTFOO = "promptfoo"
WANTED = {
    "inspect": ("inspect_ai", "openai"),
    "pydantic-evals": ("pydantic-evals>=2", "pydantic-ai-slim[openai]", "openai[aiohttp]", "uvloop"),
    "deepeval": ("deepeval", "openai[aiohttp]", "uvloop"),
    "mlflow": ("mlflow", "openai", "litellm"),
    "check-jsonschema": ("check-jsonschema", "orjson"),
}
"""What each environment is made for; the locks add what that needs."""
COMPILE = (
    *("uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-emit-index-url", "--universal", "--python-version", "3.11"),
    *("--fork-strategy", "fewest", "--no-annotate", "--custom-compile-command", "make lock-peers", "-"),
)


class NotInstalled(Exception):
    """A tool cannot be had here; the message says why."""


def installed(name: str) -> Path:
    """The folder of an environment, made where it is missing or its lock has changed; raises NotInstalled."""
    place = ENVIRONMENTS / name
    stamp = place / "stamp"
    wanted = hashlib.sha256(_lock(name).read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {name} into {place.relative_to(HERE.parent)}", file=sys.stderr)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (_install_modules if name == PROMPTFOO else _install_packages)(name, place)
        stamp.write_text(wanted)
    return place


def locked_version(name: str, distribution: str) -> str:
    """The version that the lock names."""
    text = _lock(name).read_text(encoding="utf-8")
    if name == PROMPTFOO:
        return str(json.loads(text)["packages"][f"node_modules/{distribution}"]["version"])
    found = re.search(rf"^{re.escape(distribution)}==(\S+)", text, re.MULTILINE)
    assert found, f"{distribution} is not in the lock of {name}"
    return found[1]


def _lock(name: str) -> Path:
    return LOCKS / PROMPTFOO / "package-lock.json" if name == PROMPTFOO else LOCKS / f"{name}.txt"


def _install_packages(name: str, place: Path) -> None:
    _done([sys.executable, "-m", "venv", place])
    _done(
        [
            place / "bin" / "python",
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            "--require-hashes",
            "-r",
            _lock(name),
        ]
    )


def _install_modules(name: str, place: Path) -> None:
    """promptfoo wants a newer node than many systems have: the lock brings one along.

    `npm ci` would refuse a lock that lacks an optional package for another platform; `npm install` takes what is locked, too.
    """
    for file in ("package.json", "package-lock.json"):
        shutil.copy(LOCKS / name / file, place / file)
    _done(["npm", "install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", place])
    _done([place / "node_modules" / "node" / "bin" / "node", "--version"])


def _done(command: list[str | Path]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    except OSError as problem:
        raise NotInstalled(f"cannot start {command[0]}: {problem.strerror}") from problem
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"{command[0]} failed"]
        raise NotInstalled(lines[-1])


def renew_locks() -> None:
    """Lock the newest versions anew."""
    for name, requirements in WANTED.items():
        lines = "\n".join(requirements)
        subprocess.run([*COMPILE, "-o", _lock(name)], input=lines, encoding="utf-8", check=True, cwd=HERE.parent)
    _done(["npm", "install", "--package-lock-only", "--no-audit", "--no-fund", "--prefix", LOCKS / PROMPTFOO])
    lock: dict[str, Any] = json.loads(_lock(PROMPTFOO).read_text(encoding="utf-8"))
    for package in lock["packages"].values():
        # Where it came from differs from one machine to the next; the hash does not.
        package.pop("resolved", None)
        package.pop("funding", None)
    _lock(PROMPTFOO).write_text(json.dumps(lock, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Install everything, or renew the locks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lock", action="store_true", help="renew bench/locks instead")
    if parser.parse_args().lock:
        renew_locks()
        return
    for name in (*WANTED, PROMPTFOO):
        try:
            print(f"{name}: {installed(name)}")
        except NotInstalled as problem:
            print(f"{name}: not installed: {problem}")


if __name__ == "__main__":
    main()
