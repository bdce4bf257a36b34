"""Progress of a run in a script: shown only where it is asked for."""

import subprocess
import sys
from pathlib import Path

from tests.engine.run_settings import write_golden


def test_a_script_sees_progress_only_where_it_asks_for_it(tmp_path: Path) -> None:
    dataset = write_golden(tmp_path / "golden.json")
    code = (
        "import assay, sys; assay.run(sys.argv[1], model='scripted/echo', judge='scripted/judge-5', runs_dir=sys.argv[2], "
        "progress={'no': None, 'yes': True}[sys.argv[3]])"
    )
    command = [sys.executable, "-c", code, str(dataset), str(tmp_path / "runs")]
    said = [subprocess.run([*command, wanted], capture_output=True, text=True, check=True) for wanted in ("no", "yes")]
    assert (said[0].stdout, said[0].stderr, said[1].stdout) == ("", "", "")
    assert "5/5 records" in said[1].stderr
