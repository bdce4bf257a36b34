"""Plugins of installed distributions: found by name, listed, and broken alone."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from assay import api
from assay.core.errors import UsageProblem
from assay.engine.execution.run import open_or_create
from assay.engine.planning.request import PlanProblems
from assay.engine.storage.run_paths import folders_of
from tests.plugins.datasets import run_words, words
from tests.plugins.packages import Site

CODE = """
def exact(record, answer):
    return answer.strip() == record.references[0]

def parrot(prompt):
    return prompt.split()[-1]

def brief(record):
    return "Briefly. " + record.prompt
"""
POINTS = {
    "graders": {"exact": "acme_evals:exact", "acme/strict": "acme_evals:exact"},
    "models": {"parrot": "acme_evals:parrot", "openai": "acme_evals:parrot"},
    "policies": {"brief": "acme_evals:brief", "default": "acme_evals:brief"},
}
BROKEN = {"graders": {"gone": "broken_evals:nothing", "raises": "broken_evals_too:grade", "number": "broken_evals:NUMBER"}}
WATCH = """
import sys
sys.argv = ["assay", *sys.argv[1:]]
from assay.surfaces.cli.main import main
try:
    main()
finally:
    print("importlib.metadata" in sys.modules, "acme_evals" in sys.modules, file=sys.stderr)
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path / "packages")
    made.install("acme_evals", CODE, POINTS, version="2.1")
    with made.here():
        yield made


@pytest.fixture
def broken_site(tmp_path: Path) -> Iterator[Site]:
    """Distributions that are broken in several ways, beside one that is not."""
    made = Site(tmp_path / "packages")
    made.install("acme_evals", CODE, {"graders": {"exact": "acme_evals:exact"}})
    made.install("broken_evals", "NUMBER = 7\n", BROKEN)
    (made.folder / "broken_evals_too.py").write_text("raise RuntimeError('not today')\n", encoding="utf-8")
    made.install("odd_evals", "", {"models": {"odd": "odd_evals:odd"}})
    (made.folder / "odd_evals-1.0.dist-info" / "entry_points.txt").write_text("[assay.models]\nno equals sign\n", encoding="utf-8")
    with made.here():
        yield made


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("grader", ["exact", "acme_evals/exact", "acme/strict"])
def test_a_plugin_is_named_alone_or_after_its_package(tmp_path: Path, grader: str) -> None:
    assert run_words(tmp_path, model="parrot", grader=grader).metrics["pass_rate"] == 1


@pytest.mark.usefixtures("site")
def test_the_manifest_names_package_version_and_source_of_every_plugin(tmp_path: Path) -> None:
    result = run_words(tmp_path, model="acme_evals/parrot", grader="exact", policy="brief")
    plugins = assay.open_run(result.run_dir).manifest["plan"]["plugins"]
    assert {plugin["kind"]: plugin["name"] for plugin in plugins} == {
        "grader": "exact",
        "model": "acme_evals/parrot",
        "policy": "brief",
    }
    assert {(plugin["distribution"], plugin["version"]) for plugin in plugins} == {("acme_evals", "2.1")}
    assert [len(plugin["source_sha256"]) for plugin in plugins] == [64, 64, 64]


def test_an_upgraded_plugin_is_another_one_to_a_run_that_goes_on(site: Site, tmp_path: Path) -> None:
    request = api.RunRequest(datasets=(str(words(tmp_path)),), models=("parrot",), grader="exact", run_id="x")
    open_or_create(api.plan_runs(request).plans[0], folders_of(tmp_path / "runs", "x"), at=time.time())
    site.install("acme_evals", CODE, POINTS, version="2.2")
    with pytest.raises(UsageProblem, match=r"has changed since the run was planned \(version 2.1, now 2.2\)"):
        api.resume("x", runs_dir=tmp_path / "runs")


def test_the_command_runs_lists_and_resumes_with_plugins(site: Site, tmp_path: Path) -> None:
    listed = site.assay("plugins", cwd=tmp_path)
    done = site.assay("run", str(words(tmp_path)), "--model", "parrot", "--grader", "exact", "--json", cwd=tmp_path)
    assert (listed.returncode, done.returncode) == (0, 0)
    assert "grader  exact        acme_evals 2.1  ready       acme_evals:exact" in listed.stdout
    assert "model   openai       acme_evals 2.1  name taken  acme_evals:parrot" in listed.stdout
    assert "'openai' is built in, and stays what it is; this one is 'acme_evals/openai'" in listed.stdout
    assert listed.stdout.endswith("6 plugins\n")
    assert json.loads(done.stdout)["metrics"]["pass_rate"] == 1


def test_without_plugins_the_list_says_so(tmp_path: Path) -> None:
    done = Site(tmp_path / "packages").assay("plugins", cwd=tmp_path)
    assert (done.returncode, done.stdout.startswith("no plugins are installed")) == (0, True)


@pytest.mark.usefixtures("broken_site")
def test_a_broken_plugin_breaks_nothing_else(tmp_path: Path) -> None:
    assert run_words(tmp_path, model="scripted/echo", grader="exact").state == "completed"


def test_the_list_says_why_a_plugin_does_not_load(broken_site: Site, tmp_path: Path) -> None:
    done = broken_site.assay("plugins", "--json", cwd=tmp_path)
    problems = {plugin["name"]: plugin["problem"] for plugin in json.loads(done.stdout)["plugins"]}
    assert done.returncode == 1
    assert problems["exact"] == ""
    assert "there is no 'nothing' in 'broken_evals'" in problems["gone"]
    assert "RuntimeError: not today (broken_evals_too.py:1)" in problems["raises"]
    assert "a grader is a function" in problems["number"]
    assert "entry_points.txt cannot be read" in problems["?"]


@pytest.mark.usefixtures("broken_site")
def test_naming_a_broken_plugin_says_why_it_does_not_load(tmp_path: Path) -> None:
    with pytest.raises(PlanProblems, match="RuntimeError: not today"):
        run_words(tmp_path, model="scripted/echo", grader="raises")


UNKNOWN = {
    "nearest": ({"grader": "exactt"}, r"unknown grader 'exactt' \(did you mean 'exact'\?\)"),
    "built-in model": ({"model": "openai", "grader": "exact"}, "'openai' has no provider prefix"),
    "built-in policy": ({"policy": "default", "grader": "exact"}, "'default' is built in"),
    "no model": ({"model": "parot", "grader": "exact"}, "'parot' has no provider prefix"),
}


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(("named", "why"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_name_that_is_no_plugin_is_refused_before_any_call(tmp_path: Path, named: dict[str, str], why: str) -> None:
    with pytest.raises(PlanProblems, match=why):
        run_words(tmp_path, **{"model": "parrot", **named})


def test_two_packages_with_one_name_are_told_apart(site: Site, tmp_path: Path) -> None:
    site.install("other_evals", CODE, {"graders": {"exact": "other_evals:exact"}})
    with pytest.raises(PlanProblems, match=r"2 packages have a grader 'exact' \(write acme_evals/exact or other_evals/exact\)"):
        run_words(tmp_path, model="parrot", grader="exact")
    assert run_words(tmp_path, model="parrot", grader="other_evals/exact").metrics["pass_rate"] == 1


@pytest.mark.parametrize("command", [("--version",), ("validate", "words.jsonl")])
def test_nothing_is_looked_for_before_a_name_asks_for_it(site: Site, tmp_path: Path, command: tuple[str, ...]) -> None:
    words(tmp_path)
    done = site.python("-c", WATCH, *command, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "False False"


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("named", [{"models": ("parrot",)}, {"judges": ("parrot",)}, {"grader": "exact"}, {"policy": "brief"}])
def test_callers_who_may_not_choose_code_cannot_name_a_plugin(tmp_path: Path, named: dict[str, Any]) -> None:
    options = {"models": ("scripted/echo",), "judges": ("scripted/judge-5",), **named}
    with pytest.raises(PlanProblems, match="code cannot be named here"):
        api.plan_runs(api.RunRequest(datasets=(str(words(tmp_path)),), code=(), **options))
