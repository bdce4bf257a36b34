"""A tiny project named assay, to build releases of."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from release.building import Built, Commit

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "assay"
version = "1.2.3"
description = "A project for tests."
readme = "README.md"
license = "Apache-2.0"
license-files = ["LICENSE"]
requires-python = ">=3.11"
dependencies = []

[project.scripts]
assay = "assay:main"

[tool.hatch.build.targets.wheel]
packages = ["src/assay"]
"""
FILES = {
    "README.md": "# A project\n",
    "LICENSE": "Do what you like.\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.3 (2026-11-16)\n\n- All of it.\n",
    "src/assay/__init__.py": '"""Nothing."""\n\n\ndef main() -> None:\n    print("assay 1.2.3")\n',
    "src/assay/py.typed": "",
    "src/assay/page.html": "<p>\n",
    "tests/test_nothing.py": "",
    "examples/demo.sh": 'set -e\n"$ASSAY" | grep 1.2.3\n',
}
COMMIT = Commit(sha="0123456789abcdef", epoch=1_790_000_000)


def write_project(root: Path, *, settings: str = "", files: Mapping[str, str] | None = None) -> Path:
    """Write the project with more settings and other files."""
    for name, text in (FILES | {"pyproject.toml": PYPROJECT + settings} | dict(files or {})).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def commit(root: Path) -> Path:
    """Make a repository of a folder."""
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "All of it"]):
        subprocess.run(["git", "-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", *command], cwd=root, check=True)
    return root


def build_once(root: Path) -> Built:
    """A project built without any proof."""
    into = root.with_name(f"{root.name}-built")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", into], cwd=root, check=True, capture_output=True)
    return Built(commit=COMMIT, tree=root, sdist=next(into.glob("*.tar.gz")), wheel=next(into.glob("*.whl")))
