"""A call that its provider rejects on arrival, for a limit or because it is overloaded: made again, or an attempt of its record."""

from collections.abc import Awaitable, Callable

from assay.core.model_call import ModelFailure, ModelRequest
from assay.core.plan import retry_delay
from assay.engine.execution.limits import PATIENCE, CallKind
from assay.engine.execution.run_context import Route, RunContext

MAX_OVERTAKEN = 2
"""Rejections of one call, each while calls that started later were answered, from which on they count as attempts."""


class BusyCall:
    """One call until it is answered: what its rejections say about the provider and about the call itself.

    While the provider answers other calls to the model, a rejection is no attempt of the record: a limit costs time only. It is one
    where nothing gets through, and where it is this call alone that is rejected.
    """

    def __init__(
        self, context: RunContext, route: Route, check: Callable[[ModelRequest], Awaitable[bool]], *, failed_before: bool
    ) -> None:
        self._context = context
        self._route = route
        self._check = check
        """Sends a request again that was answered before."""
        self._overtaken = MAX_OVERTAKEN if failed_before else 0
        self._rejected_at: float | None = None
        self._compare_at = 0.0
        self._compare_delay = context.plan.retry.base_delay

    @property
    def kind(self) -> CallKind:
        """What the next call is to the scheduler."""
        if self._overtaken:
            return "own_fault"
        return "new" if self._rejected_at is None else "rejected"

    def begin(self) -> None:
        """Note that the call is made, again or for the first time."""
        queue = self._route.queue
        if self._rejected_at is not None and queue.compared_at > self._rejected_at:
            self._overtaken = MAX_OVERTAKEN
        elif self._rejected_at is not None and queue.answered_start > self._rejected_at:
            self._overtaken += 1

    async def may_be_made_again(self, failure: ModelFailure, *, started: float, delay: float | None, answers: int) -> bool:
        """Tell whether the call is to be made again, after a wait if need be; False when its rejection counts as an attempt.

        `delay` is the wait before the record's next round, None when there is none; `answers` counts those before the call.
        """
        context, queue, policy = self._context, self._route.queue, self._context.plan.retry
        now = context.stopwatch()
        if self._rejected_at is None:
            self._compare_at = now + self._compare_delay
        self._rejected_at = now
        if queue.is_out or self._overtaken >= MAX_OVERTAKEN:
            return False
        patience = max(PATIENCE, policy.max_delay + 15.0)
        if not queue.lets_through(now, patience=patience):
            return await self._wait_for_answer(started, delay, answers, patience=patience)
        if now >= self._compare_at and not queue.has_others(now):
            self._compare_delay *= 2.0
            self._compare_at = now + self._compare_delay
            if await self._is_alone(now):
                self._overtaken = MAX_OVERTAKEN
                return False
        if self._overtaken:
            # The limits do not hold it up, so that it has to wait on its own.
            await self._pause(retry_delay(policy, self._overtaken, chance=context.chance(), retry_after=failure.retry_after))
        return True

    async def _is_alone(self, rejected_at: float) -> bool:
        """Tell whether a request that was answered before is answered again, unless another call has shown it meanwhile."""
        queue = self._route.queue
        known = queue.admission.known_good
        async with queue.checking:
            if queue.answered_start > rejected_at:
                return True
            if known is None or self._context.stop.is_set() or not await self._check(known):
                return False
            if not queue.has_others(rejected_at):
                queue.blame_waiting(self._context.stopwatch())
            return True

    async def _wait_for_answer(self, started: float, delay: float | None, answers: int, *, patience: float) -> bool:
        """Wait as long as before the record's next round, and for older calls, and tell whether another call was answered."""
        context, queue = self._context, self._route.queue
        if delay is None:
            return False
        # Nothing is stored while this waits, which would show a cancel.
        await context.ledger_writer.check_cancel()
        ends_at = context.stopwatch() + delay

        def is_over() -> bool:
            return queue.is_out or queue.limiter.broken is not None or context.stop.is_set()

        while queue.answers == answers and not is_over():
            left = ends_at - context.stopwatch()
            if left <= 0 and not queue.has_older(started):
                queue.go_out()
                break
            ended = queue.next_end()
            context.in_flight.pause()
            try:
                await context.scheduler.pause(left if left > 0 else patience, [queue], stop=context.stop, until=ended)
            finally:
                context.in_flight.resume()
        return queue.answers != answers

    async def _pause(self, seconds: float) -> None:
        self._context.in_flight.pause()
        try:
            await self._context.scheduler.pause(seconds, [self._route.queue], stop=self._context.stop)
        finally:
            self._context.in_flight.resume()
