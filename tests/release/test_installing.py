"""A wheel is installed alone, tried out, and listed with all that came with it."""

import json
import sys
from pathlib import Path

import pytest

from release.building import Built, digest
from release.commands import ReleaseProblem, call
from release.installing import Archive, Installed, find_interpreters, install, show_demo
from release.sbom import write_sbom
from tests.release.projects import COMMIT, FILES, build_once, write_project

BSD = "Classifier: License :: OSI Approved :: BSD License"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_once(write_project(tmp_path_factory.mktemp("installed") / "project"))


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("environments")
    (folder / "core.txt").touch()
    return install(built.wheel, Path(sys.executable), lock=folder / "core.txt", folder=folder / "environment")


def test_an_environment_holds_the_wheel_alone(built: Built, installed: Installed) -> None:
    assert [archive.sha256 for archive in installed.archives] == [digest(built.wheel)]
    assert sorted(path.name for path in installed.packages.glob("*.dist-info")) == ["assay-1.2.3.dist-info"]


def test_the_demo_is_shown_from_the_environment(built: Built, installed: Installed, tmp_path: Path) -> None:
    show_demo(installed, built.tree / "examples", version="1.2.3", folder=tmp_path / "demo")
    assert (tmp_path / "demo" / "examples" / "demo.sh").read_text(encoding="utf-8") == FILES["examples/demo.sh"]


def test_a_demo_that_fails_ends_the_release_with_what_it_said(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "demo.sh").write_text("echo The page is missing.; exit 2\n", encoding="utf-8")
    with pytest.raises(ReleaseProblem, match=r"ended with 2:\nThe page is missing\."):
        show_demo(installed, tmp_path / "examples", version="1.2.3", folder=tmp_path / "demo")


def test_a_wheel_of_another_version_is_refused(built: Built, installed: Installed, tmp_path: Path) -> None:
    with pytest.raises(ReleaseProblem, match=r"says 'assay 1\.2\.3', and the wheel is 1\.2\.4"):
        show_demo(installed, built.tree / "examples", version="1.2.4", folder=tmp_path / "demo")


def test_a_requirement_without_a_hash_is_not_installed(built: Built, tmp_path: Path) -> None:
    (tmp_path / "core.txt").write_text("click==8.1.8\n", encoding="utf-8")
    with pytest.raises(ReleaseProblem, match="Hashes are required"):
        install(built.wheel, Path(sys.executable), lock=tmp_path / "core.txt", folder=tmp_path / "environment")


def test_an_interpreter_that_does_not_start_is_passed_over_unless_it_is_named() -> None:
    assert list(find_interpreters([], ["3.99"])) == [f"{sys.version_info.major}.{sys.version_info.minor}"]
    with pytest.raises(ReleaseProblem, match=r"there is no interpreter 'python3\.99'"):
        find_interpreters(["python3.99"], [])


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseProblem, match="no-such-program could not be started"):
        call(["no-such-program"], folder=tmp_path)


def test_a_bill_of_materials_is_the_same_for_the_same_commit(built: Built, installed: Installed, tmp_path: Path) -> None:
    counts = [write_sbom(installed, COMMIT, tmp_path / name) for name in ("one.json", "two.json")]
    bill = json.loads((tmp_path / "one.json").read_bytes())
    assert counts == [1, 1]
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert bill["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest(built.wheel)}]
    assert bill["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/assay@1.2.3"


def test_a_bill_of_materials_tells_of_dependencies_and_their_licences(installed: Installed, tmp_path: Path) -> None:
    described = {"assay": "License: MIT\nRequires-Dist: Leaf>=1\nRequires-Dist: absent; extra == 'more'\n", "Leaf": f"{BSD}\n"}
    write_sbom(pretend(installed, tmp_path, described), COMMIT, tmp_path / "bill.json")
    bill = json.loads((tmp_path / "bill.json").read_bytes())
    assert bill["components"][0]["licenses"] == [{"license": {"name": "BSD License"}}]
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"id": "MIT"}}]
    assert bill["dependencies"][0] == {"ref": "pkg:pypi/assay@1.0", "dependsOn": ["pkg:pypi/leaf@1.0"]}


def test_a_package_without_a_licence_is_not_released(installed: Installed, tmp_path: Path) -> None:
    with pytest.raises(ReleaseProblem, match="Leaf does not say under which licence it is"):
        write_sbom(pretend(installed, tmp_path, {"assay": f"{BSD}\n", "Leaf": ""}), COMMIT, tmp_path / "bill.json")


def pretend(installed: Installed, folder: Path, described: dict[str, str]) -> Installed:
    """An environment that holds nothing but descriptions of packages."""
    for name, text in described.items():
        (folder / f"{name}-1.0.dist-info").mkdir()
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: One.\n"
        (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(head + text, encoding="utf-8")
    return installed._replace(packages=folder, archives=tuple(Archive(name, "1.0", f"{name}.whl", "0" * 64) for name in described))
