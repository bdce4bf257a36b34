"""The questions of the runs that are compared."""

from tests.engine.graded_runs import question

ROWS = [question(f"q{number:02}", source=f"paper-{number // 4}", level="hard" if number % 2 else "easy") for number in range(40)]
