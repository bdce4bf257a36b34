"""A provider's limit, learned from the calls that it rejects: a rate, a number of calls per window, or of calls in flight.

A first rejection closes the limit. Single calls then find out when it opens again, and a growing number of calls how much passes,
which shows the kind of limit: a rate lets little through at once, a window as much as before, and a limit on the calls in flight
opens when a call ends. From then on calls are made as fast as that limit allows, and a small share of them tests whether more would
be accepted. All methods take the time, so that a simulation can run hours in milliseconds.
"""

import math
from collections import deque

import msgspec

from assay.core.provider_limit import FoundLimit

CONFIRM_SECONDS = 0.015
"""Seconds in addition to two usual rejections after which a call that was not rejected counts as accepted."""
SLOW_REJECTION = 0.25
"""Seconds that a rejection takes from which on single calls would find out too little."""
LATENESS = 0.02
"""Seconds that calls may be late and catch up: timers are not exact."""
USUAL_WINDOWS = (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0)
"""Windows that providers prefer, in seconds: where one of them is possible it is tried first."""
MIN_WINDOW = 0.25
"""Seconds that a limit is closed from which on a window is told from a rate; shorter windows are kept as a rate."""
MIN_STATED_WINDOW = 3.0
"""The same where the provider stated the seconds to wait, which it often rounds up."""
MAX_GAP = 10.0
"""Seconds between two calls that are tried while nothing gets through."""
FIRST_BURST = 2.0
"""Seconds before the first rejection whose calls are the first burst."""
_MAX_LOG = 6000
_LADDER = (1.05, 1.12, 1.25, 1.4, 1.6)
"""Factors by which a rate is tested, each after the one before has held."""
_TEST_INTERVAL = 40
"""Accepted calls between two tests of whether the limit has grown."""
_MIN_TEST_SECONDS = 0.2
_MAX_HOLD_SECONDS = 40.0
"""Seconds after which a rate is tested, even if few calls were made."""
LONGEST_INTERVAL = 30.0
"""Seconds between two calls at the lowest rate that is kept."""
_SHARE_CALLS = 40
_FALL = 0.6
"""Factor by which a rate that had held has to fall before it is doubted that fewer calls are rejected at a lower one."""
_ALL = 0.35
"""Share of rejected calls from which on the limit counts as closed, whatever was found before."""
_TRIAL_CALLS = 6
"""Calls that are made at a multiple of the rate to find that out."""
_TRIAL_FACTOR = 4.0


class CallStart:
    """A call that was started, with what has become of it."""

    __slots__ = ("at", "ended_at", "in_flight", "is_accepted", "is_test", "units")

    def __init__(self, at: float, units: float, in_flight: int) -> None:
        self.at = at
        self.units = units
        self.in_flight = in_flight
        """Calls in flight besides it."""
        self.is_accepted = True
        """False once it was rejected; until then a call counts as accepted."""
        self.ended_at = math.inf
        self.is_test = False
        """The call is beyond what is known to be accepted."""


class Opening(msgspec.Struct, kw_only=True):
    """The moment in which a closed limit lets a call through."""

    closed_at: float
    last_rejected: float | None
    """Start of the last single call that was rejected."""
    at: float
    """Start of the call that was accepted."""
    units_before: float
    has_stated_wait: bool
    """The provider stated how long to wait."""
    is_time_bound: bool
    """A call was rejected although no more calls were in flight than at first: the end of a call opened it, or time has."""


class Phase:
    """What is known of the limit at present."""

    def __init__(self, learned: "LearnedLimit") -> None:
        self.learned = learned

    def wait(self, now: float, units: float) -> float:  # noqa: ARG002  # as in its subclasses
        """Return the seconds until the next call may start; infinity until a call ends."""
        return 0.0

    def started(self, start: CallStart) -> None:
        """Note a call that starts."""

    def accepted(self, start: CallStart, now: float) -> None:
        """Note a call that was accepted."""

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:
        """Note a rejection, but none of a call that started before the last one was noted."""

    def opened(self, opening: Opening, now: float) -> None:
        """Go on after the limit was closed."""

    def found(self) -> FoundLimit | None:
        """Describe the limit."""
        return None


class LearnedLimit:
    """What the rejections of a provider have taught about its limit."""

    def __init__(self) -> None:
        self.units = 0.0
        """Units that were accepted so far; calls that are not yet known to be rejected count."""
        self.calls = 0
        self.in_flight = 0
        self.rejections = 0
        """Rejections that taught something."""
        self.rejection_seconds = 0.0
        """How long rejections take."""
        self.share = 0.0
        """Share of the last calls that were rejected."""
        self.stated_wait = 0.0
        """Seconds to wait that the provider stated last."""
        self.paused_until = 0.0
        self.burst_at: float | None = None
        """Start of the first call, and later of the first call after an opening."""
        self.burst_units: float | None = None
        """Units that were accepted at once, at first."""
        self.max_in_flight = math.inf
        """Calls in flight with which the first rejection came, as long as these may be what is limited."""
        self.model: Phase | None = None
        """The kind of limit, once it is known."""
        self.phase: Phase = _Unlimited(self)
        self._decided_at = -math.inf
        self._log: deque[CallStart] = deque(maxlen=_MAX_LOG)

    @property
    def is_limiting(self) -> bool:
        """True once a call was rejected."""
        return not isinstance(self.phase, _Unlimited) or self.paused_until > 0.0

    @property
    def is_closed(self) -> bool:
        """True while calls are tried one at a time."""
        return isinstance(self.phase, _Closed)

    @property
    def confirm_seconds(self) -> float:
        """Seconds after which a call that was not rejected counts as accepted."""
        return 2.0 * self.rejection_seconds + CONFIRM_SECONDS

    @property
    def mean_units(self) -> float:
        """Units of a usual call."""
        return self.units / self.calls if self.calls else 1.0

    @property
    def is_frugal(self) -> bool:
        """True when so many calls were rejected that tests have to be rare."""
        return self.rejections > 4 + 0.02 * self.calls

    def wait(self, now: float, units: float = 1.0) -> float:
        """Return the seconds until the next call may start; infinity until a call ends."""
        if now < self.paused_until:
            return self.paused_until - now
        while True:
            phase = self.phase
            seconds = phase.wait(now, units)
            if phase is self.phase:
                return seconds

    def start(self, now: float, units: float = 1.0) -> CallStart:
        """Note a call that starts now."""
        start = CallStart(now, units, self.in_flight)
        if self.burst_at is None:
            self.burst_at = now
        self._log.append(start)
        self.units += units
        self.calls += 1
        self.in_flight += 1
        self.phase.started(start)
        return start

    def accepted(self, start: CallStart, now: float) -> None:
        """Note the end of a call that was not rejected."""
        self._end(start, now)
        self.share -= self.share / _SHARE_CALLS
        self.phase.accepted(start, now)

    def rejected(self, start: CallStart, now: float, stated_wait: float = 0.0) -> None:
        """Note a rejection, with the seconds to wait that the provider stated."""
        self.withdraw(start, now)
        self.rejection_seconds = max(now - start.at, 0.9 * self.rejection_seconds)
        if stated_wait:
            self.stated_wait = stated_wait
            self.paused_until = max(self.paused_until, now + stated_wait)
        # Calls that were in flight together are all rejected for one reason: only the first of them teaches something.
        if start.at > self._decided_at:
            self._decided_at = now
            self.rejections += 1
            self.share += (1.0 - self.share) / _SHARE_CALLS
            self.phase.rejected(start, now, stated_wait)

    def pause(self, now: float, seconds: float) -> None:
        """Wait because another worker was told to."""
        if seconds > 0:
            self.paused_until = max(self.paused_until, now + seconds)

    def withdraw(self, start: CallStart, now: float) -> None:
        """Note a rejection whose reason is known, and teaches nothing."""
        self._end(start, now)
        start.is_accepted = False
        self.units -= start.units
        self.calls -= 1

    def _end(self, start: CallStart, now: float) -> None:
        start.ended_at = now
        self.in_flight -= 1

    def forget(self) -> None:
        """Forget the kind of limit, to find it out again."""
        self.model = None
        self.max_in_flight = math.inf
        self.burst_units = None

    def found(self) -> FoundLimit | None:
        """Describe the limit, once its kind is known."""
        return self.model.found() if self.model is not None else None

    def adopt(self, found: FoundLimit, now: float) -> None:
        """Begin with a limit that was found before, or by another worker."""
        # As much as providers usually let through at once.
        self.burst_units = max(1.0, found.limit) * self.mean_units
        if found.kind == "calls_in_flight":
            self.model = self.phase = InFlightLimit(self, max(1, int(found.limit)), now)
        else:
            self.model = self.phase = SteadyRate(self, found.limit / found.seconds * self.mean_units, now, is_known=True)

    def units_before(self, start: CallStart) -> float:
        """Return the units that were accepted before a call started."""
        units = self.units
        for later in reversed(self._log):
            if later is start:
                break
            if later.is_accepted:
                units -= later.units
        return units

    def units_between(self, after: float, until: float) -> float:
        """Return the units accepted of calls that started in a span of time."""
        units = 0.0
        for start in reversed(self._log):
            if start.at <= after:
                break
            if start.at <= until and start.is_accepted:
                units += start.units
        return units

    def in_flight_at(self, at: float) -> int:
        """Return the number of accepted calls that were in flight at a time."""
        return sum(start.is_accepted and start.at <= at < start.ended_at for start in self._log)

    def accepted_since(self, at: float) -> list[CallStart]:
        """Return the accepted calls that started at or after a time."""
        return [start for start in self._log if start.is_accepted and start.at >= at]


class _Unlimited(Phase):
    """No call was rejected."""

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:
        """Close the limit."""
        self.learned.phase = _Closed(self.learned, start.at, now, stated_wait)


class _Closed(Phase):
    """Nothing gets through: calls are tried one at a time."""

    def __init__(self, learned: LearnedLimit, at: float, now: float, stated_wait: float, *, gap: float | None = None) -> None:
        super().__init__(learned)
        self._at = at
        self._noted_at = now
        is_slow = learned.rejection_seconds >= SLOW_REJECTION
        self._settles_at = now + (CONFIRM_SECONDS if is_slow else learned.confirm_seconds)
        """When all calls that were rejected together are known."""
        self._is_settled = False
        self._has_stated_wait = bool(stated_wait)
        self._gap = gap
        self._next = 0.0
        self._tried: CallStart | None = None
        self._last_rejected: float | None = None
        self._is_time_bound = False
        self._has_tried_free_place = False

    def wait(self, now: float, units: float) -> float:  # noqa: ARG002
        """Wait for the next single call, or for the outcome of the last one."""
        learned = self.learned
        if now < self._settles_at:
            return self._settles_at - now
        if not self._is_settled and not self._settle(now):
            return 0.0
        if self._tried is not None and not self._tried.is_accepted:
            # It was withdrawn.
            self._tried = None
        if self._tried is not None:
            confirmed_at = self._tried.at + learned.confirm_seconds
            if now < confirmed_at:
                return confirmed_at - now
            self._open(self._tried, now)
            return 0.0
        if learned.model is None and learned.in_flight < learned.max_in_flight < math.inf and not self._has_tried_free_place:
            # A call has ended: if the calls in flight are limited, there is room for another one now.
            return 0.0
        return max(0.0, self._next - now)

    def _settle(self, now: float) -> bool:
        """Note what was accepted before the limit closed; return False when rejections are slow, so that a rate is kept at once."""
        learned = self.learned
        self._is_settled = True
        burst_at = learned.burst_at if learned.burst_at is not None else self._at
        if learned.model is None:
            learned.max_in_flight = min(learned.max_in_flight, max(1, learned.in_flight_at(self._at)))
            first = max(burst_at, self._at - FIRST_BURST)
            learned.burst_units = max(learned.mean_units, learned.units_between(first - 1e-9, self._at))
            if learned.rejection_seconds >= SLOW_REJECTION:
                learned.max_in_flight = math.inf
                seconds = max(learned.rejection_seconds, self._noted_at - first)
                learned.model = learned.phase = SteadyRate(
                    learned, learned.burst_units / seconds, now, mark=(self._at, learned.units)
                )
                return False
        if self._gap is None:
            self._gap = max(0.015, 1.0 / max((learned.burst_units or 1.0) / learned.mean_units, 10.0))
        self._next = max(now, self._at + self._gap)
        return True

    def started(self, start: CallStart) -> None:
        """Try one call."""
        self._tried = start
        if self.learned.model is None and start.in_flight < self.learned.max_in_flight < math.inf:
            self._has_tried_free_place = start.is_test = True

    def accepted(self, start: CallStart, now: float) -> None:
        """Open when the call that was tried has an answer."""
        if start is self._tried:
            self._open(start, now)

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:  # noqa: ARG002
        """Try the next call later."""
        learned = self.learned
        if start is not self._tried or self._gap is None:
            return
        self._tried = None
        self._last_rejected = start.at
        self._is_time_bound = self._is_time_bound or start.in_flight >= learned.max_in_flight
        if start.is_test:
            _drop_in_flight_limit(learned)
        self._gap = min(2.5 * self._gap, MAX_GAP)
        usual = _usual_times(learned.burst_at or 0.0, after=now + 0.35 * self._gap, before=now + 1.6 * self._gap)
        self._next = usual if usual is not None else now + self._gap

    def _open(self, start: CallStart, now: float) -> None:
        learned = self.learned
        if start.in_flight >= learned.max_in_flight:
            _drop_in_flight_limit(learned)
        opening = Opening(
            closed_at=self._at,
            last_rejected=self._last_rejected,
            at=start.at,
            units_before=learned.units - start.units,
            has_stated_wait=self._has_stated_wait,
            is_time_bound=self._is_time_bound,
        )
        if learned.model is None:
            learned.phase = _Search(learned, opening, now)
        else:
            learned.phase = learned.model
            learned.model.opened(opening, now)


def _drop_in_flight_limit(learned: LearnedLimit) -> None:
    """Note that the calls in flight are not what is limited."""
    learned.max_in_flight = math.inf


def _usual_times(begin: float, *, after: float, before: float) -> float | None:
    """Return when a usual window that began at a time ends, if one ends in a span of time."""
    ends = (begin + 1.004 * window + 0.004 for window in USUAL_WINDOWS)
    return next((end for end in ends if after < end < before), None)


class _Search(Phase):
    """Open again: more and more calls are made until one is rejected, which shows the kind of limit."""

    def __init__(self, learned: LearnedLimit, opening: Opening, now: float) -> None:
        super().__init__(learned)
        self._opening = opening
        self._round = self._left = 1
        self._round_ends = 0.0
        self._started = 1
        self._careful_rounds = 3
        self._last_at = now
        self._beyond: CallStart | None = None
        """A call beyond the calls in flight that may be the limit."""

    def wait(self, now: float, units: float) -> float:  # noqa: ARG002
        """Wait for the next round, or for a place when the calls in flight may be limited."""
        learned = self.learned
        if learned.in_flight >= learned.max_in_flight:
            if self._opening.is_time_bound or learned.in_flight > learned.max_in_flight:
                return math.inf
            return max(0.0, self._last_at + 0.05 + 2.0 * learned.confirm_seconds - now)
        if self._left > 0:
            return 0.0
        if now < self._round_ends - 1e-9:
            return self._round_ends - now
        self._next_round()
        return 0.0

    def _next_round(self) -> None:
        learned = self.learned
        self._round = max(self._round + 1, min(100_000, self._round * 3 // 2))
        is_near = learned.units - self._opening.units_before >= 0.95 * (learned.burst_units or math.inf)
        if is_near and self._careful_rounds and learned.max_in_flight == math.inf:
            # About as much as at first has passed: a window is full now, and a round of many calls would be rejected.
            self._careful_rounds -= 1
            self._round = 1
        self._left = self._round

    def started(self, start: CallStart) -> None:
        """Count a call of the round; the calls in flight are the limit when many pass as long as there are no more."""
        learned = self.learned
        self._started += 1
        self._left -= 1
        self._last_at = start.at
        if start.in_flight >= learned.max_in_flight:
            self._beyond = start
            self._opening.is_time_bound = True
        elif self._beyond is not None and self._beyond.is_accepted and start.at > self._beyond.at + learned.confirm_seconds:
            _drop_in_flight_limit(learned)
        if self._left == 0:
            self._round_ends = start.at + learned.confirm_seconds
        burst_calls = (learned.burst_units or 0.0) / learned.mean_units
        if learned.max_in_flight < math.inf:
            # Without a call that was rejected for time alone, a window may be what has opened.
            extra = 0.0 if self._opening.last_rejected is not None else burst_calls
            if self._started > 2 * learned.max_in_flight + 4 + extra:
                learned.model = learned.phase = InFlightLimit(learned, int(learned.max_in_flight), start.at)
        elif self._started > 2 * burst_calls + 20:
            learned.forget()
            learned.phase = _Unlimited(learned)

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:
        """Decide for a window or a rate."""
        learned, opening = self.learned, self._opening
        if start is self._beyond:
            self._beyond = None
            return
        _drop_in_flight_limit(learned)
        mean, passed = learned.mean_units, learned.units_before(start) - opening.units_before
        closed = opening.at - opening.closed_at
        is_long = closed > max(MIN_STATED_WINDOW if opening.has_stated_wait else MIN_WINDOW, 8 * learned.confirm_seconds)
        if is_long and passed >= 3 * mean and self._is_burst(passed, start):
            learned.model = learned.phase = WindowLimit(learned, opening, passed, now)
        else:
            rate = max(passed, 0.7 * mean) / (start.at - opening.closed_at)
            mark = (start.at, learned.units_before(start))
            learned.model = learned.phase = SteadyRate(learned, rate, now, mark=mark, stated_wait=stated_wait)
        learned.burst_at = opening.at

    def _is_burst(self, passed: float, start: CallStart) -> bool:
        """Tell whether more has passed at once than a rate could have accumulated since the last call that was rejected."""
        opening, mean = self._opening, self.learned.mean_units
        if opening.last_rejected is None or opening.last_rejected <= opening.closed_at:
            return passed >= 0.6 * (self.learned.burst_units or math.inf)
        most = 1 + (start.at - opening.last_rejected) / (opening.last_rejected - opening.closed_at)
        return passed > (most + 1.4) * mean


class InFlightLimit(Phase):
    """So many calls in flight."""

    def __init__(self, learned: LearnedLimit, limit: int, now: float) -> None:
        super().__init__(learned)
        self.limit = limit
        self._begun = now, learned.units
        self._since_test = 0
        self._interval = max(10, limit)
        self._step = 1
        self._last_at = now
        self._test_at = 0.0
        self._latency = 0.0
        self._refused: tuple[int, float] | None = None
        """Calls in flight below the limit with which a call was rejected, and when."""
        self._is_odd = False

    def found(self) -> FoundLimit:
        """Describe the limit."""
        return FoundLimit(kind="calls_in_flight", limit=self.limit)

    def wait(self, now: float, units: float) -> float:  # noqa: ARG002
        """Wait until a call ends; now and then one more is tried."""
        learned = self.learned
        if learned.in_flight < self.limit:
            return 0.0
        if learned.in_flight == self.limit and self._since_test >= self._interval:
            # Not at once: a rate would reject it, too, which would say nothing about the calls in flight.
            return max(0.0, max(self._test_at, self._last_at + 0.5 * self._latency / self.limit) - now)
        return math.inf

    def started(self, start: CallStart) -> None:
        """Note a call, which may be one more than the limit."""
        self._since_test += 1
        self._last_at = start.at
        if start.in_flight >= self.limit:
            start.is_test = True
            self._test_at = start.at + self.learned.confirm_seconds
            self._since_test = 0

    def accepted(self, start: CallStart, now: float) -> None:
        """Raise the limit when one more was accepted."""
        seconds = now - start.at
        self._latency = 0.8 * self._latency + 0.2 * seconds if self._latency else seconds
        if self._refused is not None and start.in_flight >= self._refused[0] and start.at > self._refused[1]:
            self._is_odd = True
            self._refused = None
        if start.is_test and start.in_flight >= self.limit:
            self.limit = start.in_flight + self._step
            self._step = min(2 * self._step, self.limit)
            self._interval = max(4, self.limit // 2)

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:
        """Lower the limit, or keep a rate when calls are rejected with fewer calls in flight than others were accepted with."""
        learned = self.learned
        begun_at, begun_units = self._begun
        rate = max(learned.units - begun_units, learned.mean_units) / max(now - begun_at, learned.confirm_seconds)
        self._since_test = 0
        if start.is_test:
            self._step = 1
            # A test that makes the provider state a wait costs that wait.
            self._interval = max(_TEST_INTERVAL, int(20 * learned.stated_wait * rate / learned.mean_units))
        elif self.limit <= 1 or start.in_flight == 0 or self._is_odd:
            learned.forget()
            mark = (start.at, learned.units_before(start))
            learned.model = learned.phase = SteadyRate(learned, rate, now, mark=mark, stated_wait=stated_wait)
        else:
            self._refused = start.in_flight, now
            self.limit = max(1, min(3 * self.limit // 4, start.in_flight))


class SteadyRate(Phase):
    """A rate: between one that has held and one at which a call was rejected."""

    def __init__(
        self,
        learned: LearnedLimit,
        rate: float,
        now: float,
        *,
        mark: tuple[float, float] | None = None,
        stated_wait: float = 0.0,
        is_known: bool = False,
    ) -> None:
        super().__init__(learned)
        self.held = rate
        """Units per second that were accepted."""
        self.refused = 1.05 * rate if is_known else math.inf
        """Units per second at which a call was rejected."""
        self._mark = mark or (now, learned.units)
        """Start of the last call that was rejected, and the units accepted before it."""
        self._is_saturated = False
        """The rate was never below the limit since then."""
        self._last_measured = 0.0
        self._rejections_in_a_row = 0
        self._is_trial = False
        self._trial: list[CallStart] = []
        """Calls that are made at a multiple of the rate."""
        self._trial_rejections = 0
        self._calm = 0
        """Calls until the next trial."""
        self._base = rate
        """The rate that was kept after the last rejection."""
        self._climb = [(now, learned.units)]
        """When each higher rate was set since the last rejection, and the units accepted until then."""
        self._peak = rate
        """Highest rate that held since the last trial."""
        self._good_trials = 0
        self._hold = _TEST_INTERVAL / 2
        self._rung = -1
        """Rung of the ladder that is tested; -1 for none."""
        self._set(rate if is_known else 1.4 * rate, now)
        self._catch_up = LATENESS
        self._due = max(now, learned.paused_until) + learned.mean_units / rate
        if stated_wait:
            self._allow_catching_up(stated_wait)

    def found(self) -> FoundLimit:
        """Describe the limit."""
        return FoundLimit(kind="rate", limit=self.held / self.learned.mean_units)

    def _set(self, pace: float, now: float) -> None:
        """Set the rate of the next calls, and for how many of them it is kept."""
        learned = self.learned
        slowest = learned.mean_units / LONGEST_INTERVAL
        self.held = max(self.held, slowest)
        self._pace, self._since, self._since_at = max(pace, slowest), 0, now
        factor = self._pace / self.held
        if factor <= 1.001:
            self._calls = max(self._hold, float(_TEST_INTERVAL)) if learned.is_frugal else self._hold
            if learned.stated_wait * pace > (learned.burst_units or 0.0):
                # What is rejected costs the stated wait, and a provider that lets little through at once gives none of it back.
                self._calls = max(self._calls, 12.0 * learned.stated_wait * pace / learned.mean_units)
        else:
            # As many as show a difference; more where the provider may have saved up calls during a wait.
            saved = min(learned.burst_units or 0.0, learned.stated_wait * pace) / learned.mean_units
            self._calls = max(1.2, saved) / (factor - 1.0) + 2.0

    def wait(self, now: float, units: float) -> float:  # noqa: ARG002
        """Wait for the time of the next call."""
        return max(0.0, self._due - now)

    def started(self, start: CallStart) -> None:
        """Move the time of the next call, and change the rate when this one has held."""
        learned, now = self.learned, start.at
        if self._is_in_trial(start):
            return
        self._due = max(self._due, now - self._catch_up) + start.units / self._pace
        if self._due >= now:
            self._catch_up = LATENESS
        if self._due < now - LATENESS:
            # Catching up says nothing about the rate.
            self._since_at = now
        else:
            self._since += 1
        if self._since > 2:
            self._rejections_in_a_row = 0
        unknown = learned.rejection_seconds * self._pace / learned.mean_units if learned.rejection_seconds > 0.05 else 0.0
        has_held = self._since >= self._calls + unknown and now >= self._since_at + _MIN_TEST_SECONDS
        if has_held or (self._since >= 5 and now >= self._since_at + _MAX_HOLD_SECONDS):
            self._raise(now)

    def _is_in_trial(self, start: CallStart) -> bool:
        """Make some calls at a multiple of the rate when many are rejected: if not for their rate, no more of these are."""
        learned = self.learned
        self._calm -= 1
        if not self._is_trial:
            return False
        self._trial.append(start)
        self._due = start.at + learned.mean_units / (_TRIAL_FACTOR * self._pace)
        if len(self._trial) == _TRIAL_CALLS:
            self._due = start.at + learned.confirm_seconds
        elif len(self._trial) > _TRIAL_CALLS:
            self._end_trial(start.at)
            return False
        return True

    def _end_trial(self, now: float) -> None:
        learned = self.learned
        self._is_trial = False
        self._trial.clear()
        self._calm = _TEST_INTERVAL // 2
        self._peak = self._base
        if self._trial_rejections > _TRIAL_CALLS // 3:
            self._good_trials = 0
            return
        self._good_trials += 1
        if self._good_trials >= 3:
            learned.forget()
            learned.phase = _Shedding(learned)
        self.held = self._base = _TRIAL_FACTOR * self.held
        self.refused = math.inf
        self._rung = -1
        self._is_saturated = False
        self._mark = now, learned.units
        self._set(self.held, now)

    def _raise(self, now: float) -> None:
        """Go on with a higher rate after this one has held."""
        self._is_saturated = False
        if self._pace <= 1.001 * self.held:
            if self._rung < 0:
                self._rung = 0
                self._climb = [(now, self.learned.units)]
                self._set(self.held * _LADDER[0], now)
            return
        self.held = self._pace
        self._climb.append((now, self.learned.units))
        if self._rung >= 0:
            self._rung = min(self._rung + 1, len(_LADDER) - 1)
            self._hold = _TEST_INTERVAL / 2
            self.refused = max(self.refused, self.held)
            self._set(self.held * _LADDER[self._rung], now)
        elif self.refused == math.inf:
            self._set(1.5 * self.held, now)
        else:
            self._set_between(now)

    def _set_between(self, now: float) -> None:
        """Set a rate between the one that held and the one that did not, unless they are close together."""
        is_close = self.refused <= 1.06 * self.held
        self._climb = [(now, self.learned.units)]
        self._set(self.held if is_close else math.sqrt(self.held * self.refused), now)

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:
        """Lower the rate, to the measured one where the limit was reached twice."""
        learned, mean = self.learned, self.learned.mean_units
        if start in self._trial:
            self._trial_rejections += 1
            if self._trial_rejections > _TRIAL_CALLS // 3:
                self._end_trial(now)
                self._mark = start.at, learned.units_before(start)
                self._set(self.held, now)
                self._due = now + mean / self.held
            return
        self._rejections_in_a_row += 1
        if self._rejections_in_a_row >= 3 and learned.rejection_seconds < SLOW_REJECTION:
            gap = max(learned.confirm_seconds, 2.0 * mean / self.held)
            learned.phase = _Closed(learned, start.at, now, stated_wait, gap=gap)
            return
        base_before, units_before = self._base, learned.units_before(start)
        passed = units_before - self._mark[1]
        measured = max(passed, 0.7 * mean) / max(start.at - self._mark[0], 1e-6)
        self._mark = start.at, units_before
        is_like_last = passed >= 8 * mean and bool(self._last_measured) and abs(measured / self._last_measured - 1.0) < 0.08
        self._last_measured = measured if passed >= 8 * mean else 0.0
        if (self._is_saturated and passed >= 6 * mean) or is_like_last:
            self.held = measured
            self.refused = max(1.01 * measured, min(self._pace, measured * (1.0 + 1.5 * mean / passed)))
        elif self._pace > 1.001 * self._base:
            # The limit is at least what has passed since the last rejection, and what climbed beyond what may have been saved up.
            saved = learned.burst_units or 0.0
            climbed = max(
                (
                    (units_before - units - saved) / (start.at - at)
                    for at, units in self._climb
                    if at < start.at - _MIN_TEST_SECONDS
                ),
                default=0.0,
            )
            self.refused = self._pace
            # A provider that saves up nothing has shown by each rate that it accepted that it is within the limit.
            proved = self.held if (learned.burst_units or 0.0) <= 2.0 * mean else self._base
            self.held = min(max(proved, measured, climbed), 0.98 * self._pace)
        else:
            self.refused = self.held
            least = 0.6 if learned.rejection_seconds < SLOW_REJECTION else 0.8
            self.held = max(min(measured, 0.9 * self.held), least * self.held)
        if self._good_trials:
            # Lower rates have not helped before.
            self.held = max(self.held, 0.97 * base_before)
            self.refused = max(self.refused, 1.01 * self.held)
        self._base = self.held
        self._peak = max(self._peak, self._base)
        if (self.held < _FALL * self._peak or self._good_trials) and self._calm <= 0 and not stated_wait:
            # Begun now, when a limit would be reached for certain.
            self._is_trial, self._trial_rejections = learned.rejection_seconds < SLOW_REJECTION, 0
        if self._rung >= 0:
            self._hold = min(1.5 * self._hold, 1.5 * _TEST_INTERVAL)
        self._rung = -1
        # During a stated wait the provider may have saved up calls, or not: what passes then measures nothing.
        self._is_saturated = not stated_wait
        if passed > 2 * mean:
            self._set_between(now)
        else:
            self._set(self.held, now)
        self._catch_up = LATENESS
        self._due = now if self._is_trial else max(self._due, now) + mean / self._pace
        if stated_wait:
            self._allow_catching_up(stated_wait)

    def _allow_catching_up(self, stated_wait: float) -> None:
        """Make up after a stated wait for the calls that the provider has saved up, as far as it let them through at once."""
        learned = self.learned
        saved = max(0.0, min(stated_wait * self._pace, (learned.burst_units or 0.0) - learned.mean_units)) / self._pace
        self._due = learned.paused_until - saved
        self._catch_up = max(LATENESS, saved)

    def opened(self, opening: Opening, now: float) -> None:
        """Go on at the rate that held; after a long time, search for the kind of limit again."""
        learned = self.learned
        if opening.at - opening.closed_at > max(MIN_WINDOW, 6.0 * learned.mean_units / self.held):
            burst_at = learned.burst_at if learned.burst_at is not None else opening.closed_at
            learned.forget()
            first = max(burst_at, opening.closed_at - FIRST_BURST)
            learned.burst_units = max(learned.mean_units, learned.units_between(first - 1e-9, opening.closed_at))
            learned.phase = _Search(learned, opening, now)
            return
        self._rejections_in_a_row = 0
        self._is_saturated = False
        self._mark = opening.at, opening.units_before
        self._set(self.held, now)
        self._due = now + learned.mean_units / self.held


class _Shedding(Phase):
    """Some calls are rejected, however many are made: an overloaded provider, and no limit."""

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:
        """Look for a limit again when most calls are rejected."""
        learned = self.learned
        if learned.share > _ALL:
            learned.phase = _Closed(learned, start.at, now, stated_wait)


class WindowLimit(Phase):
    """So many units in so many seconds: a burst, and then a wait for the next window."""

    def __init__(self, learned: LearnedLimit, opening: Opening, limit: float, now: float) -> None:
        super().__init__(learned)
        self.limit = limit
        """Units in a window."""
        begun_at = learned.burst_at if learned.burst_at is not None else opening.closed_at
        closed_at = opening.last_rejected if opening.last_rejected is not None else opening.closed_at
        self._longest = opening.at - begun_at
        """Seconds after which a window was open; infinity when it was not after the seconds that were known."""
        self._shortest = min(closed_at - begun_at, self._longest)
        """Seconds after which it was not."""
        self._known_longest = self._longest
        self._opened_at, self._units_before = opening.at, opening.units_before
        self._offsets_before: list[float] = []
        """When the calls of the window before started, in seconds from its first one: a sliding window opens for each as late."""
        self._offsets = [start.at - opening.at for start in learned.accepted_since(opening.at)]
        self._since_test = 0
        self._interval = _TEST_INTERVAL
        self._step = 0.5
        self._short_windows = 0
        self._is_test = False
        self._first: CallStart | None = None
        """First call of the next window, until it is known to be open."""
        self._is_burst = False
        self._quiet_at = now
        self._tries = 0
        self._increment = 0.0
        self._aim = 0.0
        self._end_burst()

    def found(self) -> FoundLimit:
        """Describe the limit."""
        seconds = self._longest if self._longest < math.inf else self._known_longest
        usual = next((window for window in USUAL_WINDOWS if abs(seconds / window - 1.0) < 0.04), seconds)
        return FoundLimit(kind="window", limit=self.limit / self.learned.mean_units, seconds=usual)

    @property
    def _is_vague(self) -> bool:
        share = 0.12 if self.learned.is_frugal else 0.04
        return self._longest - self._shortest > share * self._longest + 0.005

    def _end_burst(self) -> None:
        self._is_burst = False
        self._increment = 0.0
        self._tries = 0
        self._set_aim()

    def _set_aim(self) -> None:
        """Set the seconds after the first call of this window in which the next one is tried."""
        self._aim = self._longest
        if self._longest == math.inf:
            # Later than ever before: the first window was cut short, and its length said too little.
            self._increment = 1.6 * self._increment or max(0.3 * self._shortest, self.learned.confirm_seconds)
            self._aim = self._shortest + self._increment
            usual = [window * 1.003 for window in USUAL_WINDOWS]
            near = (window for window in usual if self._shortest < window and self._aim / 1.25 < window < 1.4 * self._aim)
            self._aim = next(near, self._aim)
        elif self._is_vague and not self._tries and not self.learned.stated_wait:
            usual = [window * 1.003 for window in USUAL_WINDOWS]
            shorter = next((window for window in usual if self._shortest < window < 0.99 * self._longest), None)
            if shorter is not None:
                self._aim = shorter
            elif any(0.99 * self._longest <= window <= self._longest for window in usual):
                self._shortest = max(self._shortest, 0.97 * self._longest)
            else:
                self._aim = (self._shortest + self._longest) / 2.0

    def wait(self, now: float, units: float) -> float:
        """Wait for the next window once this one is full, and for each call of a sliding one."""
        learned = self.learned
        if self._first is not None and not self._first.is_accepted:
            # It was withdrawn.
            self._first = None
        if self._first is not None:
            confirmed_at = self._first.at + learned.confirm_seconds
            if now < confirmed_at:
                return confirmed_at - now
            self._open(self._first)
        if self._is_burst:
            used = learned.units - self._units_before
            if used + units <= self.limit + 1e-9 or used <= 0:
                index = len(self._offsets)
                at = self._opened_at + self._offsets_before[index] if index < len(self._offsets_before) else 0.0
                return max(0.0, at - now)
            self._quiet_at = now
            self._end_burst()
        opens_at = self._opened_at + self._aim
        if now >= opens_at:
            return 0.0
        can_test = self._since_test >= self._interval and not self._is_vague and not learned.is_frugal
        if can_test and opens_at - now > 4.0 * learned.confirm_seconds:
            tests_at = self._quiet_at + learned.confirm_seconds
            if now > tests_at:
                self._is_test = True
                return 0.0
            return tests_at + 1e-6 - now
        return opens_at - now

    def started(self, start: CallStart) -> None:
        """Note the first call of the next window, or one more of this window."""
        self._since_test += 1
        if self._is_test:
            self._is_test, start.is_test = False, True
            self.limit += start.units
            self._since_test = 0
            self._quiet_at = start.at
        elif not self._is_burst:
            self._first = start
            return
        self._offsets.append(start.at - self._opened_at)

    def accepted(self, start: CallStart, now: float) -> None:  # noqa: ARG002
        """Open the window when its first call was accepted, and allow more when a test was."""
        if start is self._first:
            self._open(start)
        elif start.is_test and start.at > self._opened_at and self._first is None:
            self._step *= 2.0
            self.limit += self._step * start.units
            self._is_burst = True
            self._interval = 4

    def _open(self, start: CallStart) -> None:
        length = start.at - self._opened_at
        self._known_longest = max(self._longest if self._longest < math.inf else 0.0, length)
        self._longest = min(self._longest, length) if self._shortest < length else length
        self._shortest = min(self._shortest, self._longest)
        if len(self._offsets) >= len(self._offsets_before) / 2:
            self._offsets_before = self._offsets
        self._offsets = [0.0]
        self._opened_at, self._units_before = start.at, self.learned.units - start.units
        self._first = None
        self._is_burst = True

    def rejected(self, start: CallStart, now: float, stated_wait: float) -> None:
        """Try the next window later, or note how much a window takes."""
        learned = self.learned
        if start is self._first:
            self._first = None
            self._shortest = start.at - self._opened_at
            self._tries += 1
            if self._shortest >= self._longest:
                self._longest = self._known_longest if self._known_longest > 1.01 * self._shortest else math.inf
            self._set_aim()
            if stated_wait:
                self._aim = max(self._aim, learned.paused_until - self._opened_at)
            return
        if self._offsets:
            self._offsets.pop()
        self._step = 0.5
        if start.is_test:
            self.limit -= start.units
            self._interval = _TEST_INTERVAL
            return
        passed = learned.units_before(start) - self._units_before
        self._short_windows += passed < 0.6 * self.limit
        if self._short_windows > 3:
            learned.forget()
            learned.burst_at = now
            learned.phase = _Closed(learned, start.at, now, stated_wait)
            return
        self.limit = max(passed, learned.mean_units)
        self._end_burst()


def describe_phase(learned: LearnedLimit) -> str:
    """Name the phase, for tests and logs."""
    return type(learned.phase).__name__.strip("_")
