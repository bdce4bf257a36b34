"""Signals that ask a process to end become one exception, and the handlers from before come back."""

import os
import signal
import threading

import pytest

from assay.core.stop_signals import raised_as_interrupt, stop_signals


def test_a_hangup_that_is_ignored_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", {signal.SIGHUP: signal.SIG_DFL}.get)
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    monkeypatch.setattr(signal, "getsignal", {signal.SIGHUP: signal.SIG_IGN}.get)
    assert stop_signals() == (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_of_them_interrupts_the_block_and_its_handler_comes_back(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), raised_as_interrupt():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_thread_besides_the_main_one_leaves_the_handlers_alone() -> None:
    seen = []

    def work() -> None:
        with raised_as_interrupt():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]
