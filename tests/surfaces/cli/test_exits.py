"""Bad usage and bad surroundings: one clear line, the right exit code, never a traceback."""

import json
from pathlib import Path

import pytest

from assay.core.errors import UsageProblem
from assay.surfaces.cli.exits import ErrorBoundary
from assay.surfaces.cli.program import COMMANDS
from tests.commands import assay

TURNS = json.dumps([{"turn_id": 1, "speaker": "user", "message": "Hello"}])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a dataset, a config with a wrong key, and an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(TURNS, encoding="utf-8")
    Path("wrong.yaml").write_text("max_turn: 3\n", encoding="utf-8")
    Path("empty").mkdir()
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("validate", "no files given"),
        ("validate none.json", "no such file or folder: 'none.json'"),
        ("validate empty", "no datasets in folder 'empty'"),
        ("validate x*.json", "no file matches 'x*.json'"),
        ("validate a.json --format xml", "invalid value for '--format': 'xml' is not one of"),
        ("validate a.json --contract batch", "unknown contract 'batch'"),
        ("validate a.json --formt json", "no such option '--formt'"),
        ("validate a.json --config wrong.yaml", "config 'wrong.yaml': unknown key 'max_turn' (did you mean 'max_turns'?)"),
        ("validate a.json --config none.yaml", "cannot read 'none.yaml': no such file"),
        ("validate a.json --max-issues -1", "invalid value for '--max-issues'"),
        ("serve --port 22x", "invalid value for '--port': '22x' is not a port number (1 to 65535)"),
        ("serve --port 65536", "invalid value for '--port': '65536' is not a port number (1 to 65535)"),
        ("validate a.json --output none/report", "--output 'none/report': there is no folder 'none'"),
        ("validate a.json --output empty", "--output 'empty' is a folder"),
        ("validate a.json --output ./a.json", "--output './a.json' is one of the sources"),
        ("validate a.json --fix empty/../a.json", "--fix 'empty/../a.json' is one of the sources"),
        ("validate a.json --fix -", "--fix needs the name of a file"),
        ("validate a.json --fix x --output ./x", "--fix and --output both name 'x'"),
        ("validate a.json wrong.yaml --fix out.json", "--fix takes one file, and 2 were given"),
        ("validat a.json", "no such command 'validat'"),
        ("baseline", "missing command of 'assay baseline'"),
        ("keys", "missing command of 'assay keys'"),
        ("mlflow", "missing command of 'assay mlflow'"),
        ("convert", "no output given"),
        ("convert lexm a.json -o b", "unknown benchmark 'lexm'"),
        ("convert lexam -o b", "no source files given for 'lexam'"),
        ("convert --from batch_v1 a.json -o b", "--from and --to belong together"),
        ("convert --from batch_v1 --to legal_eval_v1 -o b", "--from and --to take one source, and 0 were given"),
        ("convert lexam a.json -o a.json", "--output 'a.json' is one of the sources"),
        ("convert lexam a.json -o b --report -", "--report needs the name of a file"),
        ("convert lexam a.json -o b --report b", "--report and --output both name 'b'"),
    ],
)
def test_bad_usage_is_one_clear_line_and_exit_2(arguments: str, message: str) -> None:
    result = assay(*arguments.split())
    lines = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (2, "")
    assert lines[0].startswith(f"assay: {message}")
    assert [line[:6] for line in lines[1:]] in ([], ["hint: "])


def test_a_run_file_that_is_validated_as_a_dataset_is_led_to_its_check(tmp_path: Path) -> None:
    run_file = tmp_path / "run.yaml"
    run_file.write_text("datasets: [a.json]\ncandidates: [scripted/echo]\n", encoding="utf-8")
    result = assay("validate", str(run_file))
    assert result.exit_code == 1
    assert "    hint: it looks like a run file, which is checked with: assay check FILE\n" in result.stdout


def test_an_input_that_names_its_datasets_by_hash_is_not_called_a_run_file(tmp_path: Path) -> None:
    stored = tmp_path / "input_dataset.json"
    stored.write_text('{"schema_version":"reference_v1","datasets":[{"dataset_id":"d","sha256":"00"}],"runs":[]}', encoding="utf-8")
    result = assay("validate", str(stored))
    assert result.exit_code == 1
    assert "    hint: it is the input of a run that names its datasets or runs by hash, and holds no records\n" in result.stdout


def test_a_bare_call_shows_the_help_and_exits_2() -> None:
    result = assay()
    assert (result.exit_code, result.stdout) == (2, assay("--help").stdout)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_teaches_by_examples_and_names_the_exit_codes(command: str) -> None:
    text = assay(*command.split(), "--help").stdout
    assert "Examples:" in text
    assert "Exit codes:" in text


def test_an_error_of_ours_becomes_a_line_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    with ErrorBoundary() as boundary:
        raise UsageProblem("no such thing: '\x1b[2J'", hint="look twice")
    assert boundary.exit_code == 2
    assert capsys.readouterr().err == "assay: no such thing: '␛[2J'\nhint: look twice\n"


def test_a_defect_is_one_line_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with ErrorBoundary() as boundary:
        raise KeyError("x")
    assert boundary.exit_code == 2
    assert capsys.readouterr().err.splitlines()[0] == "assay: internal error: KeyError: 'x'"


@pytest.mark.usefixtures("folder")
def test_a_missing_word_is_asked_for_in_one_line() -> None:
    lines = assay("completion").stderr.splitlines()
    assert lines[0] == "assay: missing argument '{bash|zsh|fish}'; choose from bash, zsh, fish"
