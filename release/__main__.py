"""`make release`: build, compare, look inside, audit, install, try out, list; then fill dist/ and say what was proven."""

import argparse
import datetime
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from release.advisories import audit
from release.building import Built, build_release, digest, unpack
from release.commands import ReleaseProblem
from release.contents import check_metadata, check_sdist, check_wheel, is_rehearsal
from release.installing import Installed, find_interpreters, install, show_demo
from release.report import Evidence, not_proven, proven
from release.sbom import write_sbom

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
LANGUAGE = "Programming Language :: Python :: "


def main() -> None:
    """Make the release, or say why there is none."""
    parser = argparse.ArgumentParser(
        prog="make release", description="Build a release of the last commit and prove what is said of it."
    )
    parser.add_argument(
        "--pythons", nargs="*", default=[], metavar="PYTHON", help="interpreters to try the wheel with besides this one"
    )
    options = parser.parse_args()
    # What lies there is of another release, and must not be taken for this one if it fails.
    shutil.rmtree(DIST, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(prefix="assay-release-") as scratch:
            _release(Path(scratch).resolve(), options.pythons)
    except ReleaseProblem as problem:
        sys.exit(f"\nThere is no release: {problem}")


def _release(scratch: Path, pythons: list[str]) -> None:
    with _saying("Building twice, and the wheel again from the sdist"):
        built = build_release(ROOT, scratch)
    with _saying("Looking into the wheel and the sdist"):
        wheel_files, sdist_files = check_wheel(built), check_sdist(built)
        metadata = check_metadata(built)
        version = str(metadata.version)
        rehearsal = is_rehearsal(built.tree, version)
    with _saying("Looking for known vulnerabilities"):
        audited = audit(sorted((built.tree / "requirements").glob("*.txt")), today=datetime.datetime.now(datetime.UTC).date())
    supported = [line.removeprefix(LANGUAGE) for line in metadata.classifiers or [] if line.startswith(f"{LANGUAGE}3.")]
    tried = _try_out(built, scratch, version=version, pythons=find_interpreters(pythons, supported))
    with _saying("Writing the bill of materials"):
        sbom = scratch / f"assay-{version}.cdx.json"
        distributions = write_sbom(tried[0], built.commit, sbom)
    evidence = Evidence(
        built=built,
        version=version,
        is_rehearsal=rehearsal,
        wheel_files=wheel_files,
        sdist_files=sdist_files,
        supported=tuple(supported),
        tried=tuple(installed.python_version for installed in tried),
        distributions=distributions,
        audit=audited,
    )
    _report(evidence, _publish([built.wheel, built.sdist, sbom], DIST))


def _try_out(built: Built, scratch: Path, *, version: str, pythons: dict[str, Path]) -> list[Installed]:
    """Install the wheel and show the demo with every interpreter; this one comes first."""
    source = unpack(built.sdist, scratch / "shown")
    tried = []
    for number, python in sorted(pythons.items(), key=lambda item: item[1] != Path(sys.executable)):
        with _saying(f"Installing the wheel into an empty environment of Python {number}, and showing the demo from it"):
            (scratch / number).mkdir()
            installed = install(
                built.wheel, python, lock=source / "requirements" / "core.txt", folder=scratch / number / "environment"
            )
            show_demo(installed, source / "examples", version=version, folder=scratch / number / "demo")
            tried.append(installed)
    return tried


def _publish(files: list[Path], folder: Path) -> list[Path]:
    """Put the files into a new folder, beside the list of their hashes."""
    folder.mkdir()
    kept = [Path(shutil.copy(path, folder)) for path in files]
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(kept))
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")
    return kept


def _report(evidence: Evidence, files: list[Path]) -> None:
    commit = evidence.built.commit
    print(f"\nassay {evidence.version}, commit {commit.sha[:12]} of {commit.when:%Y-%m-%d %H:%M} UTC")
    print(*(f"  {digest(path)}  dist/{path.name}" for path in files), sep="\n")
    print("\nProven", *(f"  {line}" for line in proven(evidence)), sep="\n")
    if not_proven(evidence):
        print("\nNot proven", *(f"  {line}" for line in not_proven(evidence)), sep="\n")
    if evidence.is_rehearsal:
        print("\nThis is a rehearsal: the newest part of CHANGELOG.md is still called 'Unreleased'. See docs/how-to/release.md.")


@contextmanager
def _saying(what: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    print(f"{what} ...", end=" ", flush=True)
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
