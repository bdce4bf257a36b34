"""'assay serve' and 'assay keys' on the command line."""

import json
import subprocess
from pathlib import Path

from tests.commands import assay as command
from tests.surfaces.server.serving import Serving


def test_busy_port_and_missing_run_file_are_said_before_anything_is_begun(tmp_path: Path, service: Serving) -> None:
    busy = Serving(tmp_path)
    busy.port = service.port
    done = subprocess.run(busy.command(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "address already in use" in done.stderr) == (2, True)
    assert not busy.runs_dir.exists()
    (tmp_path / "server.yaml").write_text("run_file: nowhere.yaml\n", encoding="utf-8")
    done = subprocess.run(busy.command(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "there is no run file" in done.stderr) == (2, True)


def test_command_makes_and_lists_keys_with_their_projects(tmp_path: Path) -> None:
    where = ("--runs-dir", tmp_path)
    made = command("keys", "add", "legal-ci", "--scope", "write", "--project", "legal", "--json", *where)
    assert (json.loads(made.stdout)["project"], command("keys", "add", "ci", *where).exit_code) == ("legal", 0)
    listed = json.loads(command("keys", "list", "--json", *where).stdout)["keys"]
    assert [(key["name"], key["project"]) for key in listed] == [("legal-ci", "legal"), ("ci", "default")]
    assert "legal" in command("keys", "list", *where).stdout
    refused = command("keys", "add", "other", "--project", "a/b", *where)
    assert (refused.exit_code, "cannot name a project" in refused.stderr) == (2, True)
