"""Comparison of the tool calls that a candidate made with those that were expected."""

from collections.abc import Sequence

from assay.core.canonical import canonical_json
from assay.core.tools import CallResult, ExpectedCall, MadeCall, ToolCall, ToolCallResults

_MAX_TABLE = 1_000_000
"""Maximum pairs that are aligned; longer lists are compared position by position, in linear time."""
_SAME, _NAMED, _OTHER = 4, 2, 1
"""Weights of an aligned pair: equal calls, calls of one tool, calls of two tools."""


def wrong_arguments(made: ToolCall, expected: ExpectedCall) -> tuple[str, ...]:
    """Return the arguments that differ as JSON values: 1 and 1.0 are equal, 1 and "1" are not."""
    given, wanted = made.arguments or {}, expected.arguments
    names = [*wanted, *(name for name in given if name not in wanted)]
    return tuple(
        name for name in names if (name in given) != (name in wanted) or canonical_json(given[name]) != canonical_json(wanted[name])
    )


def same_call(made: ToolCall, expected: ExpectedCall) -> bool:
    """Return whether a call is the expected one."""
    return made.name == expected.name and made.arguments is not None and not wrong_arguments(made, expected)


def compare_call(made: ToolCall, expected: ExpectedCall, *, position: int, place: int) -> CallResult:
    """Judge one call against the one that was expected in its place."""
    if made.name != expected.name:
        return CallResult(verdict="wrong_name", made=position, expected=place)
    if made.arguments is None:
        return CallResult(verdict="not_json", made=position, expected=place)
    wrong = wrong_arguments(made, expected)
    return CallResult(verdict="wrong_arguments" if wrong else "correct", made=position, expected=place, wrong_arguments=wrong)


def compare_calls(
    made: Sequence[ToolCall], expected: Sequence[ExpectedCall], *, unknown_from: int | None = None
) -> ToolCallResults:
    """Compare all calls in order; expected calls from `unknown_from` on are unknown, because the candidate left the recording."""
    known = expected if unknown_from is None else expected[:unknown_from]
    verdicts: list[CallResult] = []
    for position, place in _aligned(_in_expected_order(made, known), known):
        if position is None and place is not None:
            verdicts.append(CallResult(verdict="missing", expected=place))
        elif position is not None and place is not None:
            verdicts.append(compare_call(made[position], known[place], position=position, place=place))
        elif position is not None:
            verdicts.append(CallResult(verdict="not_json" if made[position].arguments is None else "extra", made=position))
    verdicts += [CallResult(verdict="unknown", expected=place) for place in range(len(known), len(expected))]
    return ToolCallResults(
        made=tuple(MadeCall(call.name, call.arguments, "" if call.arguments is not None else call.raw) for call in made),
        expected=tuple(MadeCall(call.name, call.arguments) for call in expected),
        verdicts=tuple(verdicts),
    )


_Made = list[tuple[int, ToolCall]]


def _in_expected_order(made: Sequence[ToolCall], expected: Sequence[ExpectedCall]) -> _Made:
    """Bring calls into the order of expected parallel ones, which may be made in any order."""
    calls = list(enumerate(made))
    start = 0
    while start < len(expected):
        end = start
        while end < len(expected) and expected[end].step == expected[start].step:
            end += 1
        if end - start > 1:
            calls[start:end] = _matched(calls[start:end], expected[start:end])
        start = end
    return calls


def _matched(calls: _Made, expected: Sequence[ExpectedCall]) -> _Made:
    """Order a group of calls like the expected ones that they equal, or else like those of the same tool."""
    left = list(calls)
    slots: list[tuple[int, ToolCall] | None] = [None] * len(expected)
    for must_equal in (True, False):
        for place, wanted in enumerate(expected):
            if slots[place] is None:
                named = (one for one in left if one[1].name == wanted.name)
                slots[place] = next((one for one in named if not must_equal or same_call(one[1], wanted)), None)
                left = [one for one in left if one is not slots[place]]
    ordered = [one or (left.pop(0) if left else None) for one in slots]
    return [one for one in ordered if one is not None] + left


def _aligned(calls: _Made, expected: Sequence[ExpectedCall]) -> list[tuple[int | None, int | None]]:
    """Pair calls with expected ones in order, so that as many as possible are equal; None stands for nothing."""
    rows, columns = len(calls), len(expected)
    if rows * columns > _MAX_TABLE:
        return [(calls[at][0] if at < rows else None, at if at < columns else None) for at in range(max(rows, columns))]
    weights = [[_weight(call, wanted) for wanted in expected] for _, call in calls]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            paired = best[row + 1][column + 1] + weights[row][column]
            best[row][column] = max(paired, best[row + 1][column], best[row][column + 1])
    pairs: list[tuple[int | None, int | None]] = []
    row = column = 0
    while row < rows and column < columns:
        if best[row][column] == best[row + 1][column + 1] + weights[row][column]:
            pairs.append((calls[row][0], column))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row][column + 1]:
            pairs.append((None, column))
            column += 1
        else:
            pairs.append((calls[row][0], None))
            row += 1
    pairs += [(position, None) for position, _ in calls[row:]]
    return pairs + [(None, place) for place in range(column, columns)]


def _weight(made: ToolCall, expected: ExpectedCall) -> int:
    if made.name != expected.name:
        return _OTHER
    return _NAMED if made.arguments is None or wrong_arguments(made, expected) else _SAME
