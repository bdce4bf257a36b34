"""Signals that ask a process to end: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a run in order; without SIGHUP if it is ignored, as under nohup."""
    # A closed terminal killed the process in the middle of its calls, which were then paid for twice.
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGINT, signal.SIGTERM, *hangup)


@contextmanager
def raised_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for each of these signals, as for Ctrl-C. Only the main thread receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Restored at the end: code that embeds assay has handlers of its own.
    before = {number: signal.signal(number, signal.default_int_handler) for number in stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
