"""The fast lane of batch_v1 on several cores: forked children judge their share of the records of one document.

Children inherit the mapped document copy-on-write and send back ids and digests, so that nothing large is copied.
A child that dies costs time only: the parent then judges its share itself.
"""

import os
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec
from msgspec import Raw

from assay.datasets.batch_v1.fast import CleanRecord, clean_records

_BLOCK = 1 << 20
_Verdicts = list[list[CleanRecord | None]]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Verdicts).decode


def clean_in_parallel(raws: Sequence[Raw], *, suspects: frozenset[int], workers: int) -> Iterator[list[CleanRecord | None]]:
    """As `clean_records`, with `workers` processes; where the system cannot fork, with one."""
    if workers < 2 or len(raws) < workers or not hasattr(os, "fork"):
        yield from clean_records(raws, suspects=suspects)
        return
    shares = _shares(raws, workers)
    children = [_Child(raws, share, suspects) for share in shares[1:]]
    try:
        yield from _judged(raws, shares[0], suspects)
        for child in children:
            yield from child.verdicts()
    finally:
        for child in children:
            child.close()


def _shares(raws: Sequence[Raw], workers: int) -> list[range]:
    """Neighbouring records with about the same number of bytes each."""
    ends = list(accumulate([len(memoryview(raw)) for raw in raws]))
    cuts = [0, *(bisect_right(ends, ends[-1] * number // workers) for number in range(1, workers)), len(raws)]
    return [range(start, end) for start, end in pairwise(cuts)]


def _judged(raws: Sequence[Raw], share: range, suspects: frozenset[int]) -> Iterator[list[CleanRecord | None]]:
    own = frozenset(at - share.start for at in suspects if at in share)
    return clean_records(raws[share.start : share.stop], suspects=own)


class _Child:
    """One forked process and the pipe on which it answers."""

    def __init__(self, raws: Sequence[Raw], share: range, suspects: frozenset[int]) -> None:
        self._again = (raws, share, suspects)
        self._reading, writing = os.pipe()
        with warnings.catch_warnings():
            # The child runs no threads and ends without cleaning up, so the threads of numpy do not matter to it.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            _answer(writing, raws, share, suspects)
        os.close(writing)

    def verdicts(self) -> Iterator[list[CleanRecord | None]]:
        """What the child found; judged here if it did not answer."""
        blocks = []
        while block := os.read(self._reading, _BLOCK):
            blocks.append(block)
        try:
            yield from _decode(b"".join(blocks))
        except msgspec.DecodeError:
            yield from _judged(*self._again)

    def close(self) -> None:
        """Ends the pipe, on which a child that is still writing ends too, and collects the child."""
        os.close(self._reading)
        os.waitpid(self._pid, 0)


def _answer(writing: int, raws: Sequence[Raw], share: range, suspects: frozenset[int]) -> None:
    """Runs in the child and never returns."""
    status = 1
    try:
        answer = memoryview(_encode(list(_judged(raws, share, suspects))))
        while answer:
            answer = answer[os.write(writing, answer) :]
        status = 0
    finally:
        os._exit(status)
