"""A grading flow that another one drives: its failures are kept, and its calls have names of their own."""

import msgspec

from assay.core.model_call import FailedReply, ModelRequest, Reply, failure_words
from assay.core.outcome import FailureLabel, Flow, Grade, GradingFailure
from assay.grading.plugin_grader import CALL_ID as GRADER_CALL

JUDGE_CALL = "judge:"
"""Beginning of the ids of calls to judges."""


class DrivenFlow:
    """One grader's flow, which starts with the request to the candidate."""

    def __init__(self, flow: Flow, *, name: str = "", takes_failed_replies: bool = True) -> None:
        """Wrap a flow; with a name, its calls are told from those of other graders of the record.

        A custom grader does not take failed replies: it cannot know them.
        """
        self.requests: tuple[ModelRequest, ...] = ()
        """What it wants to be sent now; empty at its end."""
        self.grade: Grade | None = None
        self.failure: GradingFailure | None = None
        self._flow = flow
        self._name = name
        self._takes_failed_replies = takes_failed_replies
        self._last: tuple[ModelRequest, ...] = ()

    def begin(self) -> ModelRequest | None:
        """Return the request to the candidate; None when the grader fails before it."""
        try:
            (request,) = next(self._flow)
        except GradingFailure as failure:
            self.failure = failure
            return None
        return request

    def send(self, replies: tuple[Reply, ...]) -> None:
        """Take the replies to its last requests."""
        lost = None if self._takes_failed_replies else self._lost(replies)
        if lost is not None:
            self._flow.close()
            self.requests, self.failure = (), lost
            return
        try:
            self._last = self._flow.send(replies)
        except StopIteration as end:
            self.requests, self.grade = (), end.value
        except GradingFailure as failure:
            self.requests, self.failure = (), failure
        else:
            self.requests = tuple(map(self._own, self._last))

    @property
    def asks_candidate(self) -> bool:
        """Return whether it wants the candidate to take a further step."""
        return bool(self.requests) and self.requests[0].stage == "candidate"

    def _own(self, request: ModelRequest) -> ModelRequest:
        """Return a call to a judge or a custom grader as this grader makes it; steps of the candidate are those of the record."""
        if request.stage == "candidate":
            return request
        # A call that fails for good must not end the record: what other graders and checks say was paid for.
        return msgspec.structs.replace(request, call_id=self._call_id(request), may_fail=True)

    def _call_id(self, request: ModelRequest) -> str:
        if not self._name:
            return request.call_id
        if request.call_id == GRADER_CALL:
            return f"{GRADER_CALL}:{self._name}"
        return f"{JUDGE_CALL}{self._name}:{request.call_id.removeprefix(JUDGE_CALL)}"

    def _lost(self, replies: tuple[Reply, ...]) -> GradingFailure | None:
        for request, reply in zip(self._last, replies, strict=False):
            if isinstance(reply, FailedReply):
                words = failure_words(reply.code, reply.message, attempts=reply.attempts)
                is_grader = request.call_id == GRADER_CALL
                label: FailureLabel = "timeout_or_latency_exceeded" if reply.code == "timeout" else "other"
                message = reply.message if is_grader else f"judge {request.model}: {words}"
                return GradingFailure(reply.code, message, label=label)
        return None
