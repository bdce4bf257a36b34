"""Code of others: whatever it raises is told as its own failure, and ends nothing but what it was called for."""

import traceback
from pathlib import PurePath
from types import TracebackType

from assay.core.ask import ModelFailure
from assay.core.outcome import GradingFailure


class ForeignFailure(Exception):
    """An exception of code that is not ours, in one sentence that names its place."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem
        """What was raised."""
        words = f": {problem}" if str(problem) else ""
        super().__init__(f"{type(problem).__name__}{words}{_place(problem)}")


class ForeignCode:
    """A block in which code of others runs: what it raises comes out as ForeignFailure, except what it says in our own words."""

    def __init__(self, *also: type[Exception]) -> None:
        self._own_words = (GradingFailure, ModelFailure, *also)

    def __enter__(self) -> None:
        """Nothing is needed before."""

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        # Code that wants to end the process ends nothing but its own call either.
        if isinstance(problem, Exception | SystemExit) and not isinstance(problem, self._own_words):
            raise ForeignFailure(problem) from problem


def _place(problem: BaseException) -> str:
    """The file and line that raised it; without the folder, which is nobody's business."""
    frames = traceback.extract_tb(problem.__traceback__)
    return f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
