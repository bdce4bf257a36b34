"""The environment of a run: what it takes from the process and the caller."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from assay.core.model_call import Reply
from assay.core.plugin import Plugin
from assay.core.run_backend import LOCAL_BACKEND, RunBackend
from assay.engine.execution.record_events import Observer
from assay.engine.planning.inputs import DatasetInput
from assay.engine.run_counters import Snapshot


class RunEnvironment(msgspec.Struct, kw_only=True):
    """Everything that a run takes from outside: environment variables, clocks, randomness, event loop, callbacks, signals."""

    environ: Mapping[str, str]
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.perf_counter
    """Monotonic seconds, for the duration of calls."""
    chance: Callable[[], float] = random.random
    """Returns a uniform number in 0..1, for the jitter of waits."""
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Makes the run's event loop; None is the fastest one that is installed."""
    watch: Callable[[Snapshot], None] | None = None
    """Called a few times a second with the run's counters."""
    on_busy: Callable[[int | None], None] | None = None
    """Called once, with the other's process id if known, when this process waits for another that works on the run."""
    inputs: Sequence[DatasetInput] | None = None
    """The datasets, when the caller has just read them."""
    takes_signals: bool = False
    """Ctrl-C, SIGTERM and SIGHUP drain the run; a second one stops it at once."""
    answers: Callable[[str, int], Reply] | None = None
    """Returns a supplied answer by case id and sample, for answers that are in no file."""
    earlier_judge_reply: Callable[[str, str], Reply | None] | None = None
    """Returns a judge's reply from an earlier run, by record hash and call id; None when the judge must be called."""
    observe: Observer | None = None
    """Called with each finished record."""
    is_stopping: Callable[[], bool] | None = None
    """Called a few times a second; True drains the run. For callers that handle signals themselves."""
    plugins: Sequence[Plugin] = ()
    """Plugins that the caller has loaded or supplied; the plan's others are loaded."""
    is_detached: bool = False
    """True when a provider's batches are submitted and polled once, without waiting for them."""
    placement: RunBackend = LOCAL_BACKEND
    is_patient: bool = True
    """True when this process waits while another works on the run."""
    is_retried: bool = False
    """True when the caller or another server resumes the run after an outage, so that an outage is no failure of the run."""
    driver: str = ""
    """Name under which this process owns a run with a shared ledger."""


class RunInterrupted(Exception):
    """The run was stopped before its end and can be resumed."""
