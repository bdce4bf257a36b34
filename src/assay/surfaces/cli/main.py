"""Entry point of the `assay` command: settings of the process before anything else is loaded, and its end."""

import atexit
import gc
import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import NoReturn


def main() -> None:
    """Run the `assay` command and exit with its code."""
    # Must be set before numpy is imported, which happens with the first command that needs it.
    # numpy's linear algebra is not used here, and its threads cost more than the command itself.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # A command makes many values that live until its end; looking for cycles among them every 700 objects is wasted work. What the
    # modules of a command make at its start, classes and functions, should not reach the threshold.
    gc.set_threshold(100_000, 20, 20)
    try:
        # Loaded here, after the settings above.
        import_module("assay.surfaces.cli.program").program.main(prog_name="assay")
    except SystemExit as end:
        # Only Temporal's library has native threads that still run then.
        if "temporalio" in sys.modules:
            _end_at_once(end.code)
        raise
    finally:
        # What is left goes with the process; it need not be searched for cycles before.
        gc.freeze()


def _end_at_once(code: object) -> NoReturn:
    """End without finalizing the interpreter: threads of Temporal's library still run, and a busy process may crash then."""
    # Threads that were meant to end by themselves, such as one that exports spans, get the time to do so.
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # what the interpreter would do next
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
