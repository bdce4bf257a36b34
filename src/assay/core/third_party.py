"""Isolation of third-party code: its exceptions become ThirdPartyError, and end only the call that ran it."""

import traceback
from pathlib import PurePath
from types import TracebackType

from assay.core.model_call import ModelFailure
from assay.core.outcome import GradingFailure


class ThirdPartyError(Exception):
    """An exception of third-party code, in one sentence with file and line."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem
        """The exception that was raised."""
        words = f": {problem}" if str(problem) else ""
        super().__init__(f"{type(problem).__name__}{words}{_source_location(problem)}")


class ThirdPartyCode:
    """A block of third-party code: its exceptions become ThirdPartyError, except our own failures, which it may raise."""

    def __init__(self, *also: type[Exception]) -> None:
        self._passed_through = (GradingFailure, ModelFailure, *also)

    def __enter__(self) -> None:
        """Do nothing: there is no setup."""

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        # SystemExit too: code that calls exit() must end only its own call.
        if isinstance(problem, Exception | SystemExit) and not isinstance(problem, self._passed_through):
            raise ThirdPartyError(problem) from problem


def _source_location(problem: BaseException) -> str:
    """Name the file and line that raised it; without the folder, which may be private."""
    frames = traceback.extract_tb(problem.__traceback__)
    return f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
