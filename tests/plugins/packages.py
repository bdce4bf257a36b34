"""Small distributions, installed into a folder as pip would: a module, its metadata and its entry points."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Points = Mapping[str, Mapping[str, str]]
SOURCE = Path(__file__).parents[2] / "src"


class Site:
    """A folder of installed distributions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def install(self, name: str, code: str, points: Points, *, version: str = "1.0") -> None:
        """A distribution with one module of its own name, instead of any other version of it."""
        (self.folder / f"{name}.py").write_text(code, encoding="utf-8")
        for older in self.folder.glob(f"{name}-*.dist-info"):
            older.rename(self.folder / f"{name}-{version}.dist-info")
        described = self.folder / f"{name}-{version}.dist-info"
        described.mkdir(exist_ok=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        sections = (f"[assay.{group}]\n" + _lines(named) for group, named in points.items())
        (described / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")

    @contextmanager
    def here(self) -> Iterator[None]:
        """This process has the distributions for the time of a `with` block."""
        known = set(sys.modules)
        sys.path.insert(0, str(self.folder))
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))
            for name in set(sys.modules) - known:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                    del sys.modules[name]

    def python(self, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """Another process that has them."""
        environment = {"PYTHONPATH": f"{self.folder}:{SOURCE}", "PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "120"}
        return subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    def assay(self, *words: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
        """The command in another process."""
        return self.python("-m", "assay", *words, cwd=cwd)


def _lines(named: Mapping[str, str]) -> str:
    return "".join(f"{point} = {place}\n" for point, place in named.items())
