"""What identifies the code of a plugin: files, modules that they import, and held values; the same in every process and Python."""

import collections
import dataclasses
import decimal
import enum
import functools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.core.plan import PluginPlan
from assay.core.plugin import given_plugin, referred_plugin, reopened
from assay.core.plugin_source import source_of_object
from assay.engine.execution.run import open_or_create
from assay.engine.storage.run_paths import folders_of
from tests.plugins.datasets import words

ROOT = Path(__file__).parents[2]


def plan_of(folder: Path, **files: str) -> PluginPlan:
    """The plan of `grade` in main.py, with other modules in a package beside it."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return referred_plugin("grader", f"{folder / 'main.py'}:grade", folder=folder).plan


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of this process, with a package of a name that no other test has."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"rules_{tmp_path.name.replace('-', '_')}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / name / "deep.py").write_text("LEVEL = 0.5\n")
    (tmp_path / name / "scale.py").write_text("from . import deep\n\ndef level():\n    return deep.LEVEL\n")
    (tmp_path / "main.py").write_text(f"from {name}.scale import level\n\ndef grade(record, answer):\n    return level()\n")
    return tmp_path / name


def test_modules_that_a_plugin_imports_are_part_of_it(package: Path) -> None:
    plan = plan_of(package.parent)
    assert list(plan.imports or {}) == [package.name, f"{package.name}.deep", f"{package.name}.scale"]
    assert reopened(plan).plan == plan


def test_a_change_two_imports_away_is_refused_and_named(package: Path) -> None:
    plan = plan_of(package.parent)
    (package / "deep.py").write_text("LEVEL = 0.9\n")
    with pytest.raises(UsageProblem, match=rf"has changed since the run was planned \(it imports '{package.name}.deep'\)"):
        reopened(plan)


def test_a_module_that_appears_after_the_run_was_planned_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    plan = plan_of(tmp_path, main="def grade(record, answer):\n    import quicker_rules_of_mine\n    return 1\n")
    assert plan.imports == {}
    (tmp_path / "quicker_rules_of_mine.py").write_text("")
    with pytest.raises(UsageProblem, match="it imports 'quicker_rules_of_mine'"):
        reopened(plan)


def test_folders_without_an_init_are_followed_before_they_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "bare_rules_of_mine" / "inner").mkdir(parents=True)
    (tmp_path / "bare_rules_of_mine" / "inner" / "scale.py").write_text("")
    text = "def grade(record, answer):\n    from bare_rules_of_mine.inner import scale\n    return 1\n"
    assert list(plan_of(tmp_path, main=text).imports or {}) == ["bare_rules_of_mine.inner.scale"]


def test_installed_packages_and_ours_are_not_followed(tmp_path: Path) -> None:
    assert plan_of(tmp_path, main="import assay, json, msgspec, pytest\ndef grade(record, answer): return 1\n").imports == {}


def test_a_declared_version_that_changes_is_refused(tmp_path: Path) -> None:
    text = (
        "import pathlib\ndef grade(record, answer): return 1\ngrade.VERSION = (pathlib.Path(__file__).parent / 'v').read_text()\n"
    )
    (tmp_path / "v").write_text("1")
    plan = plan_of(tmp_path, main=text)
    assert plan.version == "1"
    (tmp_path / "v").write_text("2")
    for name in [name for name in sys.modules if name.startswith("main_")]:
        del sys.modules[name]
    with pytest.raises(UsageProblem, match=r"\(version 1, now 2\)"):
        reopened(plan)


def test_a_run_of_an_earlier_version_goes_on_with_the_same_file(package: Path) -> None:
    plan = msgspec.structs.replace(plan_of(package.parent), imports=None)
    (package / "deep.py").write_text("LEVEL = 0.9\n")
    assert reopened(plan).plan.source_sha256 == plan.source_sha256
    (package.parent / "main.py").write_text("def grade(record, answer): return 0\n")
    with pytest.raises(UsageProblem, match="has changed since the run was planned"):
        reopened(plan)


def test_a_run_of_an_earlier_version_with_code_given_in_python_is_refused_with_the_reason(tmp_path: Path) -> None:
    def grade(_record: assay.Case, _answer: str) -> bool:
        return True

    request = api.RunRequest(
        datasets=(str(words(tmp_path)),), runs_dir=str(tmp_path / "runs"), models=("scripted/echo",), grader=grade, run_id="r"
    )
    plan = api.plan_runs(request).plans[0]
    begun = tuple(msgspec.structs.replace(plugin, imports=None, source_sha256="00") for plugin in plan.plugins)
    open_or_create(msgspec.structs.replace(plan, plugins=begun), folders_of(tmp_path / "runs", "r"), at=0.0)
    with pytest.raises(UsageProblem, match="was begun by an earlier version of assay"):
        api.run(request)


@dataclasses.dataclass
class Rule:
    """A setting in a class of the author's."""

    level: float
    names: tuple[str, ...] = ()


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def holding(value: Any) -> Callable[[], Any]:
    def grade() -> Any:
        return value

    return grade


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        ("1", b"1"),
        ((1, 2), [1, 2]),
        (Rule(0.5, ("a",)), Rule(0.5, ("b",))),
        (Colour.RED, Colour.BLUE),
        (Colour.RED, 1),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        ({"a": {1, 2}}, {"a": {1, 3}}),
        (PurePosixPath("a"), PurePosixPath("b")),
        (functools.partial(max, 1), functools.partial(min, 1)),
        (Rule, Colour),
    ],
    ids=lambda value: type(value).__name__,
)
def test_held_values_tell_plugins_apart(one: Any, other: Any) -> None:
    first, again, second = (source_of_object(holding(value)) for value in (one, one, other))
    assert (first.token, second.token) == ("", "")
    assert first == again
    assert first.sha256 != second.sha256


def test_functions_of_one_file_differ_by_their_lines() -> None:
    one = lambda *_: True  # noqa: E731
    other = lambda *_: True  # noqa: E731
    assert source_of_object(one).sha256 != source_of_object(other).sha256


def test_lambdas_on_one_line_are_known_to_this_process_only() -> None:
    one, other = (lambda *_: True, lambda *_: False)
    assert source_of_object(one).unknown == ("its source",)
    assert source_of_object(one).token == source_of_object(one).token != source_of_object(other).token


HIDDEN = {
    "lock": threading.Lock(),
    "generator": (one for one in ()),
    "file": sys.stdout,
    "Decimal": decimal.Decimal(1),
    "deque": collections.deque([1]),
    "OrderedDict": collections.OrderedDict(a=1),
    "cached function": functools.lru_cache(holding(1)),
    "method of a type in C": str.upper,
    "set of objects": {Rule(0.5).names, PurePosixPath("a")},
}


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_not_plain_data_is_never_taken_for_unchanged(name: str) -> None:
    value = HIDDEN[name]
    found = source_of_object(holding(value))
    assert found.unknown[0].startswith("value: a ")
    assert found.token
    assert source_of_object(holding(value)).token == found.token


def test_a_chain_of_values_without_end_is_given_up() -> None:
    chain: list[Any] = []
    for _ in range(100):
        chain = [chain]
    assert source_of_object(holding(chain)).unknown


def test_a_value_that_holds_itself_is_counted_once() -> None:
    itself: list[Any] = []
    itself.append(itself)
    assert source_of_object(holding(itself)).unknown == ()


def test_a_declared_version_stands_for_what_cannot_be_compared() -> None:
    grade = holding(threading.Lock())
    grade.version = "2"  # type: ignore[attr-defined]  # what a function says of itself
    plan = given_plugin("grader", grade).plan
    assert (plan.version, plan.unknown, plan.token) == ("2", (), "")


HELD = """
import dataclasses, enum, functools, re
from pathlib import PurePosixPath

@dataclasses.dataclass
class Rule:
    level: float
    where: object = PurePosixPath("a/b")

class Colour(enum.Enum):
    RED = 1

def at(record, answer, *, rule): return rule.level
def closed(value):
    def grade(record, answer): return value
    return grade
class Levelled:
    def __init__(self, level): self.level = level
    def __call__(self, record, answer): return self.level

GRADERS = {
    "partial": functools.partial(at, rule=Rule(0.5)),
    "lambda": closed([lambda *_: True]),
    "object": Levelled(Colour.RED),
    "closure": closed({"pattern": re.compile("a+"), "set": {"x", "y", "z"}}),
}
"""


def test_hashes_are_the_same_in_every_process_and_python(tmp_path: Path) -> None:
    (tmp_path / "held_rules.py").write_text(HELD, encoding="utf-8")
    program = (
        "import json, held_rules\n"
        "from assay.core.plugin_source import source_of_object\n"
        "print(json.dumps({name: source_of_object(one).sha256[:12] for name, one in held_rules.GRADERS.items()}))"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *filter(None, sys.path)))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ)
    assert json.loads(done.stdout) == {
        "partial": "9601446ea1af",
        "lambda": "d403656b208f",
        "object": "4aca260aafe4",
        "closure": "0bf7a9a4f9c9",
    }
