"""The signals that ask a process to end: Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a run in order; without SIGHUP where it is ignored, as below nohup."""
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGINT, signal.SIGTERM, *hangup)


@contextmanager
def raised_as_interrupt() -> Iterator[None]:
    """Inside, each of these signals raises KeyboardInterrupt, as Ctrl-C does. Other threads than the main one get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
