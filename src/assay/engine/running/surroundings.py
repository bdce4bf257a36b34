"""What a run takes from outside."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from assay.core.ask import Reply
from assay.core.placement import HERE, Placement
from assay.core.plugin import Plugin
from assay.engine.planning.inputs import DatasetInput
from assay.engine.running.observing import Observer
from assay.engine.tally import Snapshot


class Surroundings(msgspec.Struct, kw_only=True):
    """What a run takes from outside: environment, clocks, chance, an event loop, somebody who watches, signals."""

    environ: Mapping[str, str]
    clock: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.perf_counter
    """Seconds that nobody sets back: how long a call takes."""
    chance: Callable[[], float] = random.random
    """Uniform in 0..1: how much longer or shorter a wait is than its schedule says."""
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    """Makes the event loop that the run works in; None is the fastest one that is installed."""
    watch: Callable[[Snapshot], None] | None = None
    on_busy: Callable[[int | None], None] | None = None
    """Told once, with a process id, when another process works on the run and this one waits."""
    inputs: Sequence[DatasetInput] | None = None
    """The datasets, where somebody has just read them."""
    takes_signals: bool = False
    """Ctrl-C, SIGTERM and SIGHUP drain the run; a second one stops it at once."""
    answers: Callable[[str, int], Reply] | None = None
    """Given answers by case id and sample, where they are in no file."""
    judged: Callable[[str, str], Reply | None] | None = None
    """What judges said in an earlier run, by a record's hash and a call; None where they are to be asked."""
    observe: Observer | None = None
    """Told of each record that comes to its end."""
    is_stopping: Callable[[], bool] | None = None
    """Asked a few times a second: True drains the run, for a caller that has signals of its own."""
    plugins: Sequence[Plugin] = ()
    """Code of others that somebody has just loaded or given; what else the plan names is loaded."""
    is_detached: bool = False
    """Batches of a provider are handed in and looked at once, and not waited for."""
    placement: Placement = HERE
    is_patient: bool = True
    """While another process works on the run, this one waits for it."""
    is_retried: bool = False
    """After an outage the caller, or another server, continues the run by itself, so that it has not failed."""
    driver: str = ""
    """The name under which this process drives a run that other machines reach."""


class Interrupted(Exception):
    """The run was stopped before its end and can be resumed."""
