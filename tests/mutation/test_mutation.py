"""What `make mutants` does: changes that are changes, and marks and tests that exist."""

import ast
from pathlib import Path

import pytest

from tests.mutation.modules import MODULES, ROOT, SOURCE, Module
from tests.mutation.mutants import mutants_of
from tests.mutation.run import MARKS, drawn, entry_of, key_of, marked

SAMPLE = """
def steps(first: int, *, is_open: bool = True) -> int:
    if first < 2 and not is_open:
        log(f"{first + 1}")
    return first + 3 if is_open else first
"""


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path)
def test_a_module_and_its_tests_exist(module: Module) -> None:
    assert [name for stage in module.stages for name in stage if not (ROOT / name).exists()] == []
    assert (SOURCE / module.path).is_file()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path)
def test_a_mutant_is_another_program(module: Module) -> None:
    before = ast.dump(ast.parse((SOURCE / module.path).read_text(encoding="utf-8")))
    mutants = [mutant for _, mutant in drawn([module], count=5, seed=1)]
    assert [mutant.diff for mutant in mutants if ast.dump(ast.parse(mutant.source)) == before] == []


def test_each_kind_of_slip_is_made() -> None:
    found = {(mutant.kind, mutant.becomes) for mutant in mutants_of("x.py", SAMPLE)}
    assert found == {
        ("flag", "def steps(first: int, *, is_open: bool = False) -> int:"),
        ("if False", "if False:"),
        ("and/or", "if (first < 2 or not is_open):"),
        ("comparison", "if (first <= 2) and not is_open:"),
        ("integer", "if first < 3 and not is_open:"),
        ("not", "if first < 2 and is_open:"),
        ("deleted call", "pass"),
        ("branch", "return (first + 3)"),
        ("branch", "return first"),
        ("arithmetic", "return (first - 3) if is_open else first"),
        ("integer", "return first + 4 if is_open else first"),
    }


def test_a_seed_draws_the_same_mutants_and_none_that_is_marked() -> None:
    first, again = (drawn(list(MODULES), count=50, seed=3) for _ in range(2))
    assert first == again
    assert [key_of(mutant) for _, mutant in first if key_of(mutant) in marked()] == []


def test_what_is_marked_as_equivalent_is_in_the_code_and_has_a_reason() -> None:
    paths = {path for path, _, _ in marked()}
    known = {key_of(mutant) for path in paths for mutant in mutants_of(path, (SOURCE / path).read_text(encoding="utf-8"))}
    assert [key for key, reason in marked().items() if key not in known or not reason] == []


def test_a_survivor_is_printed_as_it_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, mutant),) = drawn([MODULES[0]], count=1, seed=1)
    monkeypatch.setattr("tests.mutation.run.MARKS", tmp_path / MARKS.name)
    (tmp_path / MARKS.name).write_text(entry_of(mutant), encoding="utf-8")
    assert list(marked()) == [key_of(mutant)]
