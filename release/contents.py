"""What is in a wheel and an sdist, compared with what git keeps; and what they say of themselves."""

import re
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packaging.markers import Marker
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.building import Built
from release.commands import ReleaseProblem

NOT_SHIPPED = (".ci/", ".schemathesis/")
"""Parts of the repository that are of no use to whoever has the sdist."""
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
UNRELEASED = "Unreleased"
DESCRIBED = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
SHOWN = 20


def check_wheel(built: Built) -> int:
    """How many files the wheel has; raises ReleaseProblem unless they are those that git keeps of the package, and DESCRIBED."""
    package = built.tree / "src" / "assay"
    expected = {f"assay/{path.relative_to(package).as_posix()}": path.read_bytes() for path in _files(package)}
    with zipfile.ZipFile(built.wheel) as wheel:
        found = {name: wheel.read(name) for name in wheel.namelist()}
    described = {f"{_stem(built.wheel)}.dist-info/{name}" for name in DESCRIBED}
    _compare(set(found), {*expected, *described, "assay/py.typed"}, "the wheel")
    _compare_contents(found, expected, "the wheel")
    return len(found)


def check_sdist(built: Built) -> int:
    """How many files the sdist has; raises ReleaseProblem unless they are what git keeps but NOT_SHIPPED, and the metadata."""
    kept = {path.relative_to(built.tree).as_posix(): path for path in _files(built.tree)}
    expected = {name: path.read_bytes() for name, path in kept.items() if not name.startswith(NOT_SHIPPED)}
    expected["PKG-INFO"] = _metadata(built)
    with tarfile.open(built.sdist) as sdist:
        found = {member.name.partition("/")[2]: file.read() for member in sdist if (file := sdist.extractfile(member))}
    _compare(set(found), set(expected), "the sdist")
    _compare_contents(found, expected, "the sdist")
    return len(found)


def check_metadata(built: Built) -> Metadata:
    """What the wheel says of itself, complete and by the rules of package indexes; raises ReleaseProblem otherwise."""
    try:
        metadata = Metadata.from_email(_metadata(built), validate=True)
    except ExceptionGroup as group:
        raise ReleaseProblem("\n".join(["the metadata of the wheel are not valid:", *map(str, group.exceptions)])) from group
    project = tomllib.loads((built.tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project.get("optional-dependencies", {})
    wanted = {_plain(line) for line in project["dependencies"]}
    wanted |= {_plain(line, extra=extra) for extra, lines in extras.items() for line in lines}
    _compare({_plain(str(line)) for line in metadata.requires_dist or []}, wanted, "the list of dependencies in the wheel")
    _compare(set(metadata.provides_extra or []), set(map(canonicalize_name, extras)), "the list of extras in the wheel")
    empty = [name for name in ("summary", "license_expression", "requires_python", "description") if not getattr(metadata, name)]
    if empty or metadata.description_content_type != "text/markdown":
        raise ReleaseProblem(f"the metadata of the wheel lack {', '.join(empty) or 'the type of the description'}")
    return metadata


def is_rehearsal(tree: Path, version: str) -> bool:
    """Whether the change log still calls its newest part unreleased; raises ReleaseProblem when it is about another version."""
    headings = HEADING.findall((tree / "CHANGELOG.md").read_text(encoding="utf-8"))
    newest = headings[0] if headings else ""
    if newest == UNRELEASED:
        return True
    if newest.split(" ")[0] != version:
        raise ReleaseProblem(
            f"the version is {version} (src/assay/core/version.py), and the newest heading of CHANGELOG.md is '{newest}'"
        )
    return False


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _stem(wheel: Path) -> str:
    return "-".join(wheel.name.split("-")[:2])


def _metadata(built: Built) -> bytes:
    with zipfile.ZipFile(built.wheel) as wheel:
        return wheel.read(f"{_stem(built.wheel)}.dist-info/METADATA")


def _plain(line: str, *, extra: str = "") -> str:
    """A requirement as metadata have it: its name in lower case, and on the condition that the extra is wanted."""
    requirement = Requirement(line)
    requirement.name = requirement.name.lower()
    if extra:
        condition = f"extra == '{canonicalize_name(extra)}'"
        requirement.marker = Marker(f"({requirement.marker}) and {condition}" if requirement.marker else condition)
    return str(requirement)


def _compare(found: set[str], expected: set[str], what: str) -> None:
    problems = [f"{what} lacks:\n{_listed(expected - found)}"] if expected - found else []
    problems += [f"{what} should not have:\n{_listed(found - expected)}"] if found - expected else []
    if problems:
        raise ReleaseProblem("\n".join(problems))


def _compare_contents(found: Mapping[str, bytes], expected: Mapping[str, bytes], what: str) -> None:
    changed = [name for name, content in expected.items() if found[name] != content]
    if changed:
        raise ReleaseProblem(f"these files of {what} are not as git keeps them:\n{_listed(changed)}")


def _listed(names: set[str] | list[str]) -> str:
    more = [f"  and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return "\n".join([*(f"  {name}" for name in sorted(names)[:SHOWN]), *more])
