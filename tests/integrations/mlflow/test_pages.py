"""The examples of the page for users of MLflow do what the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.integrations.mlflow.serving import MlflowServer

PAGE = Path(__file__).parents[3] / "docs" / "coming-from" / "mlflow.md"


def test_the_page_for_users_of_mlflow_runs_as_it_stands(server: MlflowServer, tmp_path: Path) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL))
    settings = {**os.environ, "MLFLOW_TRACKING_URI": server.uri, "MLFLOW_DISABLE_TELEMETRY": "true"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=settings, check=False)
    assert ran.returncode == 0, ran.stderr
    printed = [line for line in ran.stdout.splitlines() if re.match(r"\d", line)]
    assert (printed[0], printed[1][:6], printed[2:]) == ("0.5", "50.0 %", ["2", "1.0"])
