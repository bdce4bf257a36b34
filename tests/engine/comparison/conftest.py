"""Two runs to compare."""

from pathlib import Path

import pytest

from tests.engine.comparison.compared import ROWS
from tests.engine.graded_runs import graded, passing


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over 40 questions: six right answers turned wrong, one wrong answer right, two stayed wrong."""
    folder = tmp_path_factory.mktemp("compared")
    graded(folder, "before", ROWS, passing(ROWS, 0, 1, 2))
    graded(folder, "after", ROWS, passing(ROWS, 1, 2, 10, 11, 12, 13, 14, 15))
    return folder
