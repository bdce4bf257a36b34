"""How readers say how far they are."""

from collections.abc import Callable

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""


def no_progress(done: int, total: int) -> None:
    """Nobody watches."""
