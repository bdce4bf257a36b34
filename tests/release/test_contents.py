"""A wheel and an sdist hold what they should and nothing else, and say of themselves what is true."""

from pathlib import Path

import pytest

from release.commands import ReleaseProblem
from release.contents import check_metadata, check_sdist, check_wheel, is_rehearsal
from tests.release.projects import FILES, PYPROJECT, build_once, write_project

EXTRAS = """
[project.optional-dependencies]
Big_Tables = ["PyArrow>=18"]
speed = ["uvloop>=1; sys_platform != 'win32'"]
"""


def test_a_wheel_holds_the_package_and_its_description(tmp_path: Path) -> None:
    assert check_wheel(build_once(write_project(tmp_path / "project"))) == 3 + 5


def test_a_page_that_is_missing_from_a_wheel_is_named(tmp_path: Path) -> None:
    built = build_once(write_project(tmp_path / "project", settings='exclude = ["*.html"]\n'))
    with pytest.raises(ReleaseProblem, match=r"the wheel lacks:\n  assay/page.html"):
        check_wheel(built)


def test_a_test_in_a_wheel_is_named(tmp_path: Path) -> None:
    built = build_once(write_project(tmp_path / "project", settings='force-include = {"tests" = "tests"}\n'))
    with pytest.raises(ReleaseProblem, match=r"the wheel should not have:\n  tests/test_nothing.py"):
        check_wheel(built)


def test_a_file_that_changed_on_its_way_into_a_wheel_is_named(tmp_path: Path) -> None:
    built = build_once(write_project(tmp_path / "project"))
    (built.tree / "src" / "assay" / "page.html").write_text("<p>changed\n", encoding="utf-8")
    with pytest.raises(ReleaseProblem, match=r"not as git keeps them:\n  assay/page.html"):
        check_wheel(built)


def test_an_sdist_without_tests_is_refused(tmp_path: Path) -> None:
    root = write_project(tmp_path / "project", settings='[tool.hatch.build.targets.sdist]\nexclude = ["tests"]\n')
    with pytest.raises(ReleaseProblem, match=r"the sdist lacks:\n(?s:.*)  tests/test_nothing.py"):
        check_sdist(build_once(root))


@pytest.mark.parametrize("name", ["README.md", "src/assay/page.html"])
def test_a_file_that_changed_on_its_way_into_an_sdist_is_named(name: str, tmp_path: Path) -> None:
    built = build_once(write_project(tmp_path / "project"))
    assert check_sdist(built) > len(FILES)
    (built.tree / name).write_text("changed\n", encoding="utf-8")
    with pytest.raises(ReleaseProblem, match=rf"the sdist are not as git keeps them:\n  {name}$"):
        check_sdist(built)


def test_an_sdist_with_other_metadata_than_the_wheel_is_refused(tmp_path: Path) -> None:
    built, other = (
        build_once(write_project(tmp_path / name, settings=f'[project.urls]\nHome = "https://example.org/{name}"\n'))
        for name in ("project", "other")
    )
    with pytest.raises(ReleaseProblem, match=r"the sdist are not as git keeps them:\n  PKG-INFO"):
        check_sdist(built._replace(wheel=other.wheel))


def test_metadata_tell_version_and_licence(tmp_path: Path) -> None:
    metadata = check_metadata(build_once(write_project(tmp_path / "project")))
    assert (str(metadata.version), metadata.license_expression) == ("1.2.3", "Apache-2.0")


def test_a_dependency_that_the_wheel_does_not_tell_of_is_named(tmp_path: Path) -> None:
    built = build_once(write_project(tmp_path / "project"))
    write_project(built.tree, files={"pyproject.toml": PYPROJECT.replace("dependencies = []", 'dependencies = ["Click>=8"]')})
    with pytest.raises(ReleaseProblem, match=r"lacks:\n  click>=8"):
        check_metadata(built)


def test_extras_stand_in_the_metadata_with_their_conditions(tmp_path: Path) -> None:
    metadata = check_metadata(build_once(write_project(tmp_path / "project", settings=EXTRAS)))
    assert metadata.provides_extra == ["big-tables", "speed"]


@pytest.mark.parametrize(
    ("told", "other", "problem"),
    [
        ("PyArrow>=18", "PyArrow>=19", r'lacks:\n  pyarrow>=19; extra == "big-tables"'),
        ("win32", "darwin", r'should not have:\n  uvloop>=1; sys_platform != "win32" and extra == "speed"'),
        ('Big_Tables = ["PyArrow>=18"]', "", r'should not have:\n  pyarrow>=18; extra == "big-tables"'),
        ("speed =", "none = []\nspeed =", r"the list of extras in the wheel lacks:\n  none"),
    ],
    ids=["a version", "a condition", "an extra too many", "an extra too few"],
)
def test_an_extra_that_the_wheel_tells_otherwise_is_named(told: str, other: str, problem: str, tmp_path: Path) -> None:
    built = build_once(write_project(tmp_path / "project", settings=EXTRAS))
    write_project(built.tree, settings=EXTRAS.replace(told, other))
    with pytest.raises(ReleaseProblem, match=problem):
        check_metadata(built)


@pytest.mark.parametrize(("heading", "rehearsal"), [("Unreleased", True), ("1.2.3", False), ("1.2.3 (2026-11-16)", False)])
def test_the_change_log_tells_a_release_from_a_rehearsal(heading: str, rehearsal: bool, tmp_path: Path) -> None:  # noqa: FBT001
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n## 1.0.0\n", encoding="utf-8")
    assert is_rehearsal(tmp_path, "1.2.3") is rehearsal


@pytest.mark.parametrize("log", ["# Changelog\n\n## 1.2.30\n\n## 1.2.3\n", "# Changelog\n"])
def test_a_version_that_the_change_log_does_not_begin_with_is_refused(log: str, tmp_path: Path) -> None:
    (tmp_path / "CHANGELOG.md").write_text(log, encoding="utf-8")
    with pytest.raises(ReleaseProblem, match=r"the version is 1\.2\.3"):
        is_rehearsal(tmp_path, "1.2.3")
