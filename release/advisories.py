"""Locked versions against the published advisories, with pip-audit; says so when nobody could be asked. Alone: `make audit`."""

import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from release.commands import ReleaseProblem, surroundings

ROOT = Path(__file__).parent.parent
ACCEPTED = Path(__file__).with_name("accepted-advisories.toml")
KNOWN_TO_BE_BAD = "jinja2==2.4.1\n"
"""A version with an old hole in its sandbox. A service that does not know of it knows nothing: some mirrors answer like that."""

PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
CONDITION = re.compile(r"^(\S+==[^\s;]+) *;[^\\\n]*", re.MULTILINE)
REASON = 300
"""Characters; what a network says of itself can be long."""


class Audit(NamedTuple):
    """What the advisories say of the lock files."""

    reason: str = ""
    """Why they could not be asked; empty if they were."""
    audited: int = 0
    skipped: tuple[str, ...] = ()
    """Locked packages that no answer was about; pip-audit does not mind."""
    accepted: tuple[str, ...] = ()

    @property
    def was_asked(self) -> bool:
        """Whether there was anybody to ask."""
        return not self.reason


class Finding(NamedTuple):
    """One advisory about one locked package."""

    package: str
    version: str
    ids: tuple[str, ...]
    fixed_in: tuple[str, ...]

    def __str__(self) -> str:
        cure = f"fixed in {', '.join(self.fixed_in)}" if self.fixed_in else "no release has mended it"
        return f"{self.package} {self.version}: {', '.join(self.ids)}; {cure}"


def audit(locks: Sequence[Path], *, accepted: Path = ACCEPTED, today: datetime.date) -> Audit:
    """What the advisories say; raises ReleaseProblem for every one that is not accepted."""
    with tempfile.TemporaryDirectory() as scratch:
        reason = _why_nobody_answers(Path(scratch))
        if reason:
            return Audit(reason=reason)
        hashed = [word for lock in _unconditional(locks, Path(scratch)) for word in ("-r", str(lock))]
        found, said = _ask(["--require-hashes", *hashed], Path(scratch))
    if found is None:
        raise ReleaseProblem(f"pip-audit could not read the lock files:\n{said}")
    known = [entry for entry in found if "skip_reason" not in entry]
    findings = [
        Finding(entry["name"], entry["version"], ids=(flaw["id"], *flaw["aliases"]), fixed_in=tuple(flaw["fix_versions"]))
        for entry in known
        for flaw in entry["vulns"]
    ]
    refuse(findings, accepted, today=today)
    return count(found, locks)._replace(accepted=tuple(sorted(map(str, findings))))


def count(found: Sequence[Mapping[str, Any]], locks: Sequence[Path]) -> Audit:
    """How many of the locked packages an answer of pip-audit is about, and which ones it is not about."""
    locked = {f"{name} {version}" for lock in locks for name, version in PIN.findall(lock.read_text(encoding="utf-8"))}
    audited = {f"{entry['name']} {entry['version']}" for entry in found if "skip_reason" not in entry}
    pinned = {line.split(" ")[0] for line in locked}
    # What is locked by its address has no version, and cannot be audited.
    others = {entry["name"] for entry in found if "skip_reason" in entry} - pinned
    return Audit(audited=len(locked & audited), skipped=tuple(sorted(locked - audited | others)))


def refuse(findings: Sequence[Finding], accepted: Path, *, today: datetime.date) -> None:
    """Raise ReleaseProblem for the findings that are not accepted, or not any more."""
    passed = _accepted(accepted, today)
    open_ones = [finding for finding in findings if not passed & {(finding.package, name) for name in finding.ids}]
    if open_ones:
        lines = [f"  {finding}" for finding in sorted(open_ones)]
        hint = f"Renew the locks (make lock ARGS=--upgrade), or accept it with a reason and a date in {accepted.name}."
        raise ReleaseProblem("\n".join(["there are known vulnerabilities in what is locked:", *lines, hint]))


def _unconditional(locks: Sequence[Path], scratch: Path) -> list[Path]:
    """Copies of lock files without conditions: pip-audit says nothing of what is for other systems, and is not told that it is."""
    copies = []
    for lock in locks:
        copy = scratch / lock.name
        copy.write_text(CONDITION.sub(r"\1", lock.read_text(encoding="utf-8")), encoding="utf-8")
        copies.append(copy)
    return copies


def _why_nobody_answers(scratch: Path) -> str:
    """Why the advisories cannot be asked; empty if they can."""
    bad = scratch / "bad.txt"
    bad.write_text(KNOWN_TO_BE_BAD, encoding="utf-8")
    found, said = _ask(["--no-deps", "-r", str(bad)], scratch)
    if found is None:
        return said.splitlines()[-1][:REASON] if said else "pip-audit says nothing"
    if not any(entry.get("vulns") for entry in found):
        return f"the service answers, and knows of nothing wrong with {KNOWN_TO_BE_BAD.strip()}"
    return ""


def _ask(arguments: Sequence[str], scratch: Path) -> tuple[list[dict[str, Any]] | None, str]:
    """What pip-audit found, or None if it came to no result; and what it said."""
    # OSV is about advisories alone; the other service is a package index, which a mirror answers for without having any.
    service = {"PIP_AUDIT_VULNERABILITY_SERVICE": os.environ.get("PIP_AUDIT_VULNERABILITY_SERVICE", "osv")}
    options = ["--disable-pip", "--format", "json", "--progress-spinner", "off", "--cache-dir", str(scratch / "cache")]
    command = [sys.executable, "-m", "pip_audit", *options, *arguments]
    done = subprocess.run(command, env=surroundings(**service), capture_output=True, encoding="utf-8", check=False)
    try:
        return json.loads(done.stdout)["dependencies"], done.stderr.strip()
    except json.JSONDecodeError:
        return None, done.stderr.strip()


def _accepted(path: Path, today: datetime.date) -> set[tuple[str, str]]:
    """Package and id of every advisory that is accepted still; raises ReleaseProblem for an entry without a reason or a date."""
    entries: list[Mapping[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8")).get("accepted", [])
    for entry in entries:
        if not entry.get("reason") or not isinstance(entry.get("until"), datetime.date):
            raise ReleaseProblem(f"{path.name}: {entry.get('id')} needs a reason and a date until which it is accepted")
    return {(entry["package"], entry["id"]) for entry in entries if today <= entry["until"]}


def proven_by(result: Audit) -> list[str]:
    """What an audit has shown, in sentences; nothing if no answer was about a locked package."""
    if not result.audited:
        return []
    count = f"{result.audited} of the {result.audited + len(result.skipped)}" if result.skipped else f"any of the {result.audited}"
    return [
        f"No advisory is about {count} locked packages, or it is accepted.",
        *(f"  accepted: {line}" for line in result.accepted),
    ]


def not_proven_by(result: Audit) -> list[str]:
    """What an audit has left open, in sentences."""
    if not result.was_asked:
        return [
            "Whether there are known vulnerabilities in what is locked: pip-audit could not be run, since no server answers.",
            f"  {result.reason}",
        ]
    if not result.skipped:
        return []
    return [
        "Whether there are known vulnerabilities in these locked packages: pip-audit got no answer about them.",
        f"  {', '.join(result.skipped)}",
    ]


def main() -> None:
    """Audit all lock files."""
    try:
        result = audit(sorted((ROOT / "requirements").glob("*.txt")), today=datetime.datetime.now(datetime.UTC).date())
    except ReleaseProblem as problem:
        sys.exit(str(problem))
    print(*proven_by(result), *not_proven_by(result), sep="\n")


if __name__ == "__main__":
    main()
