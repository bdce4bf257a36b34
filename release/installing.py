"""A wheel into an empty environment, where it has to show that it is whole."""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from release.building import digest
from release.commands import ReleaseProblem, call

ASK_VERSION = "import sys; print(*sys.version_info[:2], sep='.')"
SAY_WHERE = "import sysconfig, assay; print(sysconfig.get_path('purelib')); print(assay.__file__)"


class Archive(NamedTuple):
    """One file that was installed."""

    name: str
    version: str
    file_name: str
    sha256: str


class Installed(NamedTuple):
    """An environment with assay and what it needs, and nothing else."""

    python: Path
    python_version: str
    packages: Path
    """The folder of what was installed."""
    archives: tuple[Archive, ...]


def find_interpreters(wanted: Sequence[str], supported: Sequence[str]) -> dict[str, Path]:
    """Interpreters by version: this one, and those that are named, or else those of the supported versions that start here."""
    found = {_version(sys.executable) or "": Path(sys.executable)}
    for name in wanted or [f"python{version}" for version in supported]:
        path = shutil.which(name)
        version = path and _version(path)
        if wanted and not (version and path):
            raise ReleaseProblem(f"there is no interpreter '{name}'")
        if version and path:
            found.setdefault(version, Path(path))
    return dict(sorted(found.items(), key=lambda item: tuple(map(int, item[0].split(".")))))


def install(wheel: Path, python: Path, *, lock: Path, folder: Path) -> Installed:
    """Install the wheel and the locked core requirements, all under hashes, into a new environment without even pip in it."""
    call([python, "-m", "venv", "--without-pip", folder], folder=folder.parent)
    inside = folder / "bin" / "python"
    own = folder / "own.txt"
    own.write_text(f"{wheel} --hash=sha256:{digest(wheel)}\n", encoding="utf-8")
    report = folder / "report.json"
    # Wheels only: to install one runs none of its code.
    options: list[str | Path] = [
        "--quiet",
        "--no-compile",
        "--only-binary",
        ":all:",
        "--require-hashes",
        "--report",
        report,
        "-r",
        lock,
        "-r",
        own,
    ]
    call([*_pip(inside), "install", *options], folder=folder)
    packages, home = (Path(line) for line in call([inside, "-c", SAY_WHERE], folder=folder).splitlines())
    if not home.is_relative_to(packages):
        raise ReleaseProblem(f"assay was loaded from {home} instead of {packages}")
    call([*_pip(inside), "check"], folder=folder)
    version = _version(inside) or ""
    return Installed(python=inside, python_version=version, packages=packages, archives=_archives(report))


def show_demo(installed: Installed, examples: Path, *, version: str, folder: Path) -> None:
    """Show the demo with nothing but the environment and the examples; raises ReleaseProblem when a step goes wrong."""
    command = installed.python.with_name("assay")
    said = call([command, "--version"], folder=folder.parent).split()
    if version not in said:
        raise ReleaseProblem(f"'assay --version' of the installed wheel says '{' '.join(said)}', and the wheel is {version}")
    shutil.copytree(examples, folder / "examples")
    (folder / "home").mkdir()
    variables = {"ASSAY": str(command), "HOME": str(folder / "home"), "NO_COLOR": "1", "PATH": "/usr/bin:/bin"}
    call(["sh", "examples/demo.sh"], folder=folder, variables=variables)


def _pip(python: Path) -> list[str | Path]:
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--python", python]


def _version(python: str | Path) -> str | None:
    try:
        said = call([python, "-c", ASK_VERSION], folder=Path.cwd()).strip()
    except ReleaseProblem:
        # A name on the search path may be a stub that stands for an interpreter which is not there.
        return None
    return said if re.fullmatch(r"\d+\.\d+", said) else None


def _archives(report: Path) -> tuple[Archive, ...]:
    """What pip says it has installed, without where it has it from."""
    entries = json.loads(report.read_text(encoding="utf-8"))["install"]
    archives = (
        Archive(
            name=entry["metadata"]["name"],
            version=entry["metadata"]["version"],
            file_name=unquote(urlsplit(entry["download_info"]["url"]).path.rpartition("/")[2]),
            sha256=entry["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for entry in entries
    )
    return tuple(sorted(archives, key=lambda archive: archive.name.lower()))
