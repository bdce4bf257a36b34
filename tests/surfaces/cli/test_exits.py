"""Bad usage and bad surroundings: one clear line, the right exit code, never a traceback."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.core.errors import UsageProblem
from assay.surfaces.cli.exits import ErrorBoundary
from assay.surfaces.cli.program import COMMANDS
from tests.commands import assay

ASSAY = [sys.executable, "-m", "assay"]
TURNS = json.dumps([{"turn_id": 1, "speaker": "user", "message": "Hello"}])


def wait_for(pattern: str, *, seconds: float = 60) -> None:
    """Return when a file of that pattern is in the working folder."""
    deadline = time.monotonic() + seconds
    while not list(Path().glob(pattern)) and time.monotonic() < deadline:
        time.sleep(0.02)


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


def test_the_version_costs_no_heavy_import() -> None:
    call = "from assay.surfaces.cli.main import main\ntry: main()\nfinally: print(*sys.modules)"
    code = f"import sys; sys.argv = ['assay', '--version']\n{call}"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.startswith("assay 0.")
    assert {"numpy", "rich", "yaml", "msgspec", "assay.api"} & set(printed.split()) == set()


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


def test_exit_codes_reach_the_shell(folder: Path) -> None:
    Path(folder, "b.json").write_text("[]", encoding="utf-8")
    codes = [
        subprocess.run([*ASSAY, "validate", name], capture_output=True, check=False).returncode
        for name in ("a.json", "b.json", "c.json")
    ]
    assert codes == [0, 1, 2]


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    turns = [{"turn_id": number, "speaker": f"speaker {number}"} for number in range(1, 3000)]
    Path(folder, "many.json").write_text(json.dumps(turns), encoding="utf-8")
    with subprocess.Popen(
        [*ASSAY, "validate", "many.json", "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.read(1)
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 141


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_one_line_and_exit_2() -> None:
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run([*ASSAY, "validate", "a.json"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 2
    assert run.stderr == (
        "assay: cannot write the report: no space left on device\nhint: free some space on that disk, or write to another place\n"
    )


def _limited(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command whose files may have 512 bytes, as on a disk that is full after them."""
    command = f"ulimit -f 1; exec '{sys.executable}' -m assay {' '.join(arguments)}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("folder")
def test_a_file_that_has_no_room_is_named_as_it_was_asked_for() -> None:
    Path("many.json").write_text(json.dumps([{"turn_id": 9}] * 90), encoding="utf-8")
    run = _limited("validate", "many.json", "--format", "json", "-o", "'my report.json'")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "assay: cannot use 'my report.json': file too large\nhint: free some space on that disk, or write to another place\n"
    )
    assert not [path for path in Path().iterdir() if "report" in path.name]


@pytest.mark.usefixtures("folder")
def test_a_missing_word_is_asked_for_in_one_line() -> None:
    lines = assay("completion").stderr.splitlines()
    assert lines[0] == "assay: missing argument '{bash|zsh|fish}'; choose from bash, zsh, fish"


@pytest.mark.usefixtures("folder")
def test_a_closed_standard_output_is_one_line_and_exit_2() -> None:
    run = subprocess.run(
        ["sh", "-c", f"'{sys.executable}' -m assay validate a.json >&-"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (run.returncode, run.stderr.splitlines()[0]) == (2, "assay: standard output is closed")


@pytest.mark.usefixtures("folder")
def test_an_interrupt_exits_130_and_leaves_no_report() -> None:
    with subprocess.Popen(
        [*ASSAY, "validate", "-", "-o", "report.txt"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        wait_for(".report.txt.*.partial")
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate()
    assert (run.returncode, errors.strip()) == (130, "assay: interrupted")
    assert list(Path().glob("*report*")) + list(Path().glob(".report*")) == []


@pytest.mark.usefixtures("folder")
def test_an_ascii_terminal_gets_question_marks_instead_of_a_crash() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run([*ASSAY, "validate", "a.json"], capture_output=True, env=environment, check=False)
    assert (run.returncode, run.stdout.splitlines()[0]) == (0, b"a.json ? conversation_v1 ? accepted ? 1 turn")


def test_a_process_that_has_temporal_ends_with_its_own_code_and_says_everything() -> None:
    pytest.importorskip("temporalio")
    program = "import atexit, sys, temporalio; from assay.surfaces.cli.main import main; atexit.register(print, 'bye'); main()"
    ended = subprocess.run([sys.executable, "-c", program, "show", "--nothing"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == "bye\n"
    assert "--nothing" in ended.stderr
