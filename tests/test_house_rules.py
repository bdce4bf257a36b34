"""Rules of the house that no linter knows: docs beside code, what an import costs, what files may say."""

import ast
import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import assay

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "assay"
MODULES = {path.relative_to(SOURCE).as_posix(): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}

MAX_MODULES_AT_IMPORT = 250
MAX_DISTRIBUTIONS = 15
BLIND_EXCEPTS_ALLOWED: dict[str, int] = {"engine/execution/case.py": 1, "engine/execution/run.py": 3}
"""Where one record must not end the others, and where an error of any kind is recorded on its way out."""
DOOR = {
    *("validate", "stream", "ValidationConfig", "Case", "Issue", "AssayError", "UsageProblem", "SourceUnreadable"),
    *("run", "run_async", "open_run", "Run", "RunRequest", "RunResult", "Client", "AsyncClient", "ServerProblem"),
    *("convert", "ValidationReport", "ModelRequest", "GradingFailure", "Judgement", "Message", "ModelFailure", "Reply", "Usage"),
}
_TYPES = "types alone: the tests of the code that fills and reads them cover it"
_BOTH_BATCHES = "engine/execution/test_batch_collector.py asks every question of both kinds of batches"
_FORMER = "the former name of another module, which api/test_validation.py imports once"
NO_TEST_OF_ITS_NAME = {
    "core/ask.py": _FORMER,
    "core/case.py": _TYPES,
    "core/http_answers.py": _TYPES,
    "core/model_call.py": _TYPES,
    "core/provider_limit.py": _TYPES,
    "core/setup_checks.py": _TYPES,
    "core/version.py": "one constant, which a rule below compares with the installed version",
    "models/anthropic_batches.py": _BOTH_BATCHES,
    "models/openai_batches.py": _BOTH_BATCHES,
    "models/provider_protocol.py": _TYPES,
    "presentation/charts.py": _TYPES,
    "surfaces/mlflow.py": "the former name of another module, which core/test_integrations.py imports once",
}
"""Modules without a test file that is named after them, and why."""
NOT_OURS = re.compile(
    r"(^|/)(\.git|\.venv[^/]*|\.assay|__pycache__|\.hypothesis|\.\w+_cache|bench/(files|results|environments)|demo-runs|dist)(/|$)"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package."""
    return {name: ast.parse(text) for name, text in MODULES.items()}


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Every node of the package that a rule speaks of, with its module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
    return [(name, node) for name, tree in trees().items() for node in ast.walk(tree) if isinstance(node, kinds)]


def functions() -> Iterator[tuple[str, Function]]:
    """Every function of the package with the place to name in a failure."""
    return ((f"{name}:{node.lineno} {node.name}", node) for name, node in nodes() if isinstance(node, Function))


def is_boolean(parameter: ast.arg) -> bool:
    return parameter.annotation is not None and ast.unparse(parameter.annotation) in ("bool", "bool | None")


def public_definitions() -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Public functions and classes of modules, and public methods of public classes."""
    for name, tree in trees().items():
        holders: list[ast.Module | ast.ClassDef] = [tree]
        for holder in holders:
            for node in holder.body:
                if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
                    yield f"{name}:{node.lineno} {node.name}", node
                    holders.extend([node] if isinstance(node, ast.ClassDef) else [])


def paths_in(folder: Path) -> Iterator[Path]:
    """Every file of the repository below a folder; others, such as those of an environment, are not even looked for."""
    for path in sorted(folder.iterdir()):
        if not NOT_OURS.search(path.relative_to(ROOT).as_posix()):
            yield from paths_in(path) if path.is_dir() else [path]


@cache
def repository_files() -> list[tuple[str, str]]:
    """Path and text of every file that belongs to the repository but pictures and this one, which spells what it forbids."""
    paths = (path for path in paths_in(ROOT) if path.suffix != ".png" and path != Path(__file__))
    return [(path.relative_to(ROOT).as_posix(), path.read_bytes().decode("utf-8", "replace")) for path in paths]


def sections(page: str) -> list[str]:
    """Names in backquotes that head a section of a reference page."""
    return re.findall(r"^### `([a-z_]+)`$", (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_the_usual_folder_of_runs_is_named_in_one_module() -> None:
    usual = re.compile(r'^RUNS_DIR = |runs_dir\b.* = "runs"|Path\("runs"\)', re.MULTILINE)
    assert [name for name, text in MODULES.items() if usual.search(text)] == ["core/runs.py"]


def test_booleans_are_passed_by_name() -> None:
    positional = ((place, [*node.args.posonlyargs, *node.args.args]) for place, node in functions())
    assert [place for place, arguments in positional if any(map(is_boolean, arguments))] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, tree in trees().items() if not ast.get_docstring(tree)] == []


def test_every_public_function_and_class_has_a_docstring() -> None:
    assert [place for place, node in public_definitions() if not ast.get_docstring(node)] == []


def test_every_module_has_a_test_file_of_its_name_in_the_folder_that_mirrors_its_own() -> None:
    modules = [Path(name) for name in MODULES if Path(name).name not in ("__init__.py", "__main__.py")]
    missing = [path.as_posix() for path in modules if not (ROOT / "tests" / path.with_name(f"test_{path.name}")).is_file()]
    assert missing == sorted(NO_TEST_OF_ITS_NAME)


def test_nothing_catches_every_exception() -> None:
    handlers = [(name, node) for name, node in nodes() if isinstance(node, ast.ExceptHandler)]
    blind = [name for name, node in handlers if node.type is None or re.search(r"\b(Base)?Exception\b", ast.unparse(node.type))]
    assert len(handlers) > 0
    assert {name: blind.count(name) for name in blind} == BLIND_EXCEPTS_ALLOWED


def test_no_file_postpones_work_in_a_comment() -> None:
    assert [name for name, text in repository_files() if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text)] == []


def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    forbidden = re.compile(r"pypi\.org|pythonhosted|--(extra-)?index-url[ =]|find-links|file:///|(?<![\w.])/(work|root|opt)/")
    assert [name for name, text in repository_files() if forbidden.search(text)] == []


def test_no_file_refers_to_papers_that_its_reader_does_not_have() -> None:
    sections = r"\b(batch|golden|legal_eval|conversation)_v1 \d\.\d\b|\bcontract (document|paper)s?\b"
    papers = re.compile(rf"\b(DECISIONS|SYSTEMS|DESIGN|STYLE|VALIDATION)\b|{sections}")
    assert [name for name, text in repository_files() if papers.search(text)] == []


def test_every_variable_that_only_the_tests_read_is_in_the_readme() -> None:
    name = re.compile(r"environ(?:\.get\(|\[)\"(ASSAY_[A-Z_]+)\"|^[A-Z]+ = \"(ASSAY_[A-Z_]+)\"", re.MULTILINE)
    read = {one for path in (ROOT / "tests").rglob("*.py") for found in name.findall(path.read_text("utf-8")) for one in found}
    ours = {one for path in SOURCE.rglob("*.py") for one in re.findall("ASSAY_[A-Z_]+", path.read_text("utf-8"))}
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [one for one in sorted(read - ours - {""}) if re.search(rf"\b{one}\b", readme) is None] == []


def test_the_door_has_exactly_the_documented_names() -> None:
    assert set(assay.__all__) == DOOR
    assert [name for name in assay.__all__ if not hasattr(assay, name)] == []


def test_no_name_that_a_package_loads_lazily_is_that_of_a_module() -> None:
    # Importing assay.x.push puts the module in the place of the function of that name in assay.x.
    packages = [
        name.removesuffix("/__init__.py")
        for name, text in MODULES.items()
        if "def __getattr__" in text and "/" in name and name.endswith("/__init__.py")
    ]
    assert packages
    hidden = {
        f"{package}: {name}"
        for package in packages
        for name in importlib.import_module(f"assay.{package.replace('/', '.')}").__all__
        if f"{package}/{name}.py" in MODULES or f"{package}/{name}/__init__.py" in MODULES
    }
    assert hidden == set()


def test_the_installed_version_is_that_of_the_source() -> None:
    assert importlib.metadata.version("assay") == assay.__version__


def test_import_loads_fewer_than_250_modules() -> None:
    assert int(run_python("import sys, assay; print(len(sys.modules))")) < MAX_MODULES_AT_IMPORT


def test_a_run_that_nobody_watches_loads_no_library_for_terminals_yaml_or_the_web() -> None:
    loaded = run_python("import sys, assay.surfaces.cli.run; from assay import api; api.run; print(*sys.modules)").split()
    assert "assay.engine.execution.run" in loaded
    assert {"rich.console", "yaml", "urllib.request", "assay.datasets.legal_eval_v1"}.isdisjoint(loaded)


def test_the_core_install_stays_small() -> None:
    locked = re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "core.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert 0 < len(locked) <= MAX_DISTRIBUTIONS


def test_every_runtime_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [re.split(r"[<>=~ ;\[]", requirement)[0] for requirement in project["dependencies"]]
    explained = (ROOT / "docs" / "decisions" / "001-dependencies.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in explained] == []
