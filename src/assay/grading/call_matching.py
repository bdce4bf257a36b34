"""Comparison of the tool calls that a candidate made with those that were expected."""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from assay.core.call_rules import NO_RULES, CallRules, RecordMatching, Rule
from assay.core.canonical import canonical_json
from assay.core.tools import CallResult, CallVerdict, ExpectedCall, MadeCall, ToolCall, ToolCallResults
from assay.grading.argument_rules import NOTHING, fits

_MAX_TABLE = 40_000
"""Maximum pairs that are all compared; beyond that equal calls are found first, in linear time, and the rest pairs up in order."""
_SAME, _NAMED, _OTHER = 4, 2, 1
"""Weights of an aligned pair: equal calls, calls of one tool, calls of two tools."""
TOLERATED: Mapping[RecordMatching, tuple[CallVerdict, ...]] = {"subset": ("missing",), "superset": ("extra",)}
"""Verdicts that cost nothing, by the way of matching."""
JudgeKey = tuple[str, str, bytes, bytes]
"""Tool, argument, and the two values that a judge compares."""
_Pair = tuple[int | None, int | None]


class CallComparison:
    """Comparison of calls by the rules of a run and of its records; remembers what judges decided."""

    def __init__(self, rules: CallRules = NO_RULES) -> None:
        self.rules = rules
        self.decided: dict[JudgeKey, bool] = {}
        """Answers of judges: whether two values mean the same."""
        self._keys: dict[int, tuple[object, bytes]] = {}

    def wrong_arguments(self, made: ToolCall, expected: ExpectedCall) -> tuple[str, ...]:
        """Return the arguments that are wrong; an argument that a judge has not decided yet counts as right."""
        # Nearly all right calls are equal, and then no rule has to be looked up.
        if not expected.rules and self._key(made, made.arguments) == self._key(expected, expected.arguments):
            return ()
        return tuple(
            name
            for name, rule, given, wanted in self._arguments(made, expected)
            if not self._is_right(made.name, name, rule=rule, given=given, wanted=wanted)
        )

    def undecided(self, made: ToolCall, expected: ExpectedCall) -> tuple[str, ...]:
        """Return the arguments that a judge has to compare."""
        return tuple(
            name
            for name, rule, given, wanted in self._arguments(made, expected)
            if rule == "judge"
            and fits(rule, given, wanted) is None
            and judge_key(made.name, name, given, wanted) not in self.decided
        )

    def same(self, made: ToolCall, expected: ExpectedCall) -> bool:
        """Return whether a call is the expected one."""
        return made.name == expected.name and made.arguments is not None and not self.wrong_arguments(made, expected)

    def compare(self, made: ToolCall, expected: ExpectedCall, *, position: int, place: int) -> CallResult:
        """Judge one call against the one that was expected in its place."""
        if made.name != expected.name:
            return CallResult(verdict="wrong_name", made=position, expected=place)
        if made.arguments is None:
            return CallResult(verdict="not_json", made=position, expected=place)
        wrong = self.wrong_arguments(made, expected)
        return CallResult(verdict="wrong_arguments" if wrong else "correct", made=position, expected=place, wrong_arguments=wrong)

    def _arguments(self, made: ToolCall, expected: ExpectedCall) -> Iterator[tuple[str, Rule, object, object]]:
        given, wanted = made.arguments or {}, expected.arguments
        names = dict.fromkeys((*wanted, *expected.rules, *given))
        for name in names:
            rule = expected.rules.get(name) or self.rules.of(expected.name, name)
            if name in given or name in wanted or name in expected.rules:
                yield name, rule, given.get(name, NOTHING), wanted.get(name, NOTHING)

    def _is_right(self, tool: str, name: str, *, rule: Rule, given: object, wanted: object) -> bool:
        found = fits(rule, given, wanted)
        return self.decided.get(judge_key(tool, name, given, wanted), True) if found is None else found

    def _key(self, call: object, arguments: object) -> bytes:
        """Return the arguments as comparable bytes, encoded once for each call."""
        known = self._keys.get(id(call))
        if known is None:
            # The call is kept with its key, so that no other one gets its id.
            known = self._keys[id(call)] = (call, b"" if arguments is None else canonical_json(arguments))
        return known[1]

    def call_key(self, call: ToolCall | ExpectedCall) -> tuple[str, bytes]:
        """Return what equal calls have in common."""
        return call.name, self._key(call, call.arguments)


def judge_key(tool: str, argument: str, given: object, wanted: object) -> JudgeKey:
    """Return the key of a comparison by a judge."""
    return tool, argument, canonical_json(given), canonical_json(wanted)


def wrong_arguments(made: ToolCall, expected: ExpectedCall) -> tuple[str, ...]:
    """Return the arguments that are wrong by the record's own rules, or else differ as JSON values."""
    return CallComparison().wrong_arguments(made, expected)


def same_call(made: ToolCall, expected: ExpectedCall) -> bool:
    """Return whether a call is the expected one by the record's own rules."""
    return CallComparison().same(made, expected)


def compare_calls(
    made: Sequence[ToolCall],
    expected: Sequence[ExpectedCall],
    *,
    unknown: Collection[int] = (),
    comparison: CallComparison | None = None,
    matching: RecordMatching = "in_order",
) -> ToolCallResults:
    """Compare all calls; expected calls at the places in `unknown` have no verdict, because the candidate left the recording."""
    comparison = comparison or CallComparison()
    listed = tuple(MadeCall(call.name, call.arguments, "" if call.arguments is not None else call.raw) for call in made)
    if matching == "any_call":
        found = (CallResult(verdict="not_json" if call.arguments is None else "correct", made=at) for at, call in enumerate(made))
        return ToolCallResults(made=listed, expected=(), verdicts=tuple(found))
    places = [place for place in range(len(expected)) if place not in unknown]
    known = [expected[place] for place in places]
    verdicts: list[CallResult] = []
    for position, at in _pairs(comparison, made, known, matching=matching):
        if position is None and at is not None:
            verdicts.append(CallResult(verdict="missing", expected=places[at]))
        elif position is not None and at is not None:
            verdicts.append(comparison.compare(made[position], known[at], position=position, place=places[at]))
        elif position is not None:
            verdicts.append(CallResult(verdict="not_json" if made[position].arguments is None else "extra", made=position))
    verdicts += [CallResult(verdict="unknown", expected=place) for place in sorted(unknown)]
    return ToolCallResults(
        made=listed,
        expected=tuple(MadeCall(call.name, call.arguments) for call in expected),
        verdicts=tuple(verdicts),
    )


def _pairs(
    comparison: CallComparison, made: Sequence[ToolCall], expected: Sequence[ExpectedCall], *, matching: RecordMatching
) -> list[_Pair]:
    if matching == "in_order":
        return _in_order(comparison, made, expected)
    if matching == "bfcl":
        paired = _first_fitting(comparison, made, expected)
    else:
        paired = _most_fitting(comparison, range(len(made)), range(len(expected)), made=made, expected=expected)
    # A tool in the place of another one is one mistake, except where calls may be missing or further ones are allowed.
    return _with_rest(paired, made, expected, pairs_others=matching not in TOLERATED)


def _with_rest(
    paired: dict[int, int], made: Sequence[ToolCall], expected: Sequence[ExpectedCall], *, pairs_others: bool
) -> list[_Pair]:
    """Add the calls without a partner: those of one tool pair up in order, then others where that is wanted."""
    left = deque(position for position in range(len(made)) if position not in set(paired.values()))
    by_name: dict[str, deque[int]] = defaultdict(deque)
    for position in left:
        by_name[made[position].name].append(position)
    pairs = dict(paired)
    for at, wanted in enumerate(expected):
        if at not in pairs and by_name[wanted.name]:
            pairs[at] = by_name[wanted.name].popleft()
    taken = set(pairs.values())
    left = deque(position for position in left if position not in taken)
    if pairs_others:
        for at in range(len(expected)):
            if at not in pairs and left:
                pairs[at] = left.popleft()
    found: list[_Pair] = [(pairs.get(at), at) for at in range(len(expected))]
    return found + [(position, None) for position in left]


def _first_fitting(comparison: CallComparison, made: Sequence[ToolCall], expected: Sequence[ExpectedCall]) -> dict[int, int]:
    """Give each expected call the first call that fits, as BFCL does; another choice might fit more of them."""
    # BFCL looks no further when the numbers differ.
    if len(made) != len(expected):
        return {}
    left = list(range(len(made)))
    paired: dict[int, int] = {}
    for at, wanted in enumerate(expected):
        found = next((position for position in left if comparison.same(made[position], wanted)), None)
        # Nothing else counts once a call has failed, and the rest pairs up by name.
        if found is None:
            break
        paired[at] = found
        left.remove(found)
    return paired


def _most_fitting(
    comparison: CallComparison,
    positions: Iterable[int],
    places: Iterable[int],
    *,
    made: Sequence[ToolCall],
    expected: Sequence[ExpectedCall],
) -> dict[int, int]:
    """Pair as many expected calls as possible with calls that fit, in any order; returns positions by place."""
    equal: dict[tuple[str, bytes], deque[int]] = defaultdict(deque)
    for position in positions:
        if made[position].arguments is not None:
            equal[comparison.call_key(made[position])].append(position)
    paired: dict[int, int] = {}
    open_places: dict[str, list[int]] = defaultdict(list)
    for at in places:
        same = equal.get(comparison.call_key(expected[at]))
        if same and not expected[at].rules:
            paired[at] = same.popleft()
        else:
            open_places[expected[at].name].append(at)
    taken = set(paired.values())
    named: dict[str, list[int]] = defaultdict(list)
    for queue in equal.values():
        for position in queue:
            if position not in taken:
                named[made[position].name].append(position)
    for name, wanted in open_places.items():
        # Equal calls of the tool may change partners, so that a call by a looser rule finds one too.
        own = {at: position for at, position in paired.items() if expected[at].name == name}
        candidates = sorted([*named[name], *own.values()])
        if len(candidates) * (len(wanted) + len(own)) > _MAX_TABLE:
            continue
        for at in own:
            del paired[at]
        paired |= _augmented(comparison, own, [*own, *wanted], candidates, made=made, expected=expected)
    return paired


def _augmented(
    comparison: CallComparison,
    start: Mapping[int, int],
    places: Sequence[int],
    candidates: Sequence[int],
    *,
    made: Sequence[ToolCall],
    expected: Sequence[ExpectedCall],
) -> dict[int, int]:
    """Find a largest matching by augmenting paths; the paths are searched without recursion."""
    fitting = {at: [position for position in candidates if comparison.same(made[position], expected[at])] for at in places}
    owner = {position: at for at, position in start.items()}
    for at in places:
        if at in start:
            continue
        came: dict[int, int] = {}
        """Place from which each call was reached."""
        queue, free = deque([at]), None
        while queue and free is None:
            place = queue.popleft()
            for position in fitting[place]:
                if position not in came:
                    came[position] = place
                    if position not in owner:
                        free = position
                        break
                    queue.append(owner[position])
        previous = {place: position for position, place in owner.items()}
        while free is not None:
            place = came[free]
            owner[free] = place
            free = previous.get(place)
            if place == at:
                break
    return {at: position for position, at in owner.items()}


def _in_order(comparison: CallComparison, made: Sequence[ToolCall], expected: Sequence[ExpectedCall]) -> list[_Pair]:
    """Pair calls in order, with those of one step in any order."""
    calls = _in_expected_order(comparison, made, expected)
    start, rows, columns = 0, len(calls), len(expected)
    # Most calls are right: equal ones at both ends need no table.
    while start < min(rows, columns) and comparison.same(made[calls[start]], expected[start]):
        start += 1
    end = 0
    while end < min(rows, columns) - start and comparison.same(made[calls[rows - 1 - end]], expected[columns - 1 - end]):
        end += 1
    pairs: list[_Pair] = [(calls[at], at) for at in range(start)]
    pairs += _aligned(comparison, calls[start : rows - end], range(start, columns - end), made=made, expected=expected)
    return pairs + [(calls[rows - at], columns - at) for at in range(end, 0, -1)]


def _in_expected_order(comparison: CallComparison, made: Sequence[ToolCall], expected: Sequence[ExpectedCall]) -> list[int]:
    """Bring calls into the order of expected parallel ones, which may be made in any order."""
    calls = list(range(len(made)))
    start = 0
    while start < len(expected):
        end = start
        while end < len(expected) and expected[end].step == expected[start].step:
            end += 1
        if end - start > 1:
            calls[start:end] = _matched(comparison, calls[start:end], range(start, end), made=made, expected=expected)
        start = end
    return calls


def _matched(
    comparison: CallComparison, calls: Sequence[int], places: range, *, made: Sequence[ToolCall], expected: Sequence[ExpectedCall]
) -> list[int]:
    """Order a group of calls like the expected ones that they fit, or else like those of the same tool."""
    paired = _most_fitting(comparison, calls, places, made=made, expected=expected)
    taken = set(paired.values())
    named: dict[str, deque[int]] = defaultdict(deque)
    for position in calls:
        if position not in taken:
            named[made[position].name].append(position)
    for at in places:
        if at not in paired and named[expected[at].name]:
            paired[at] = named[expected[at].name].popleft()
    taken = set(paired.values())
    left = deque(position for position in calls if position not in taken)
    ordered = [paired[at] if at in paired else left.popleft() if left else None for at in places]
    return [position for position in ordered if position is not None] + list(left)


def _aligned(
    comparison: CallComparison, calls: Sequence[int], places: range, *, made: Sequence[ToolCall], expected: Sequence[ExpectedCall]
) -> list[_Pair]:
    """Pair calls with expected ones in order, so that as many as possible are equal; None stands for nothing."""
    rows, columns = len(calls), len(places)
    if rows * columns > _MAX_TABLE:
        return _aligned_by_equals(comparison, calls, places, made=made, expected=expected)
    weights = [[_weight(comparison, made[position], expected[at]) for at in places] for position in calls]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            paired = best[row + 1][column + 1] + weights[row][column]
            best[row][column] = max(paired, best[row + 1][column], best[row][column + 1])
    pairs: list[_Pair] = []
    row = column = 0
    while row < rows and column < columns:
        if best[row][column] == best[row + 1][column + 1] + weights[row][column]:
            pairs.append((calls[row], places[column]))
            row, column = row + 1, column + 1
        elif best[row][column] == best[row][column + 1]:
            pairs.append((None, places[column]))
            column += 1
        else:
            pairs.append((calls[row], None))
            row += 1
    pairs += [(position, None) for position in calls[row:]]
    return pairs + [(None, at) for at in places[column:]]


def _aligned_by_equals(
    comparison: CallComparison, calls: Sequence[int], places: range, *, made: Sequence[ToolCall], expected: Sequence[ExpectedCall]
) -> list[_Pair]:
    """Pair equal calls in order, each with the next one that is left, and what is between them position by position."""
    rows: dict[tuple[str, bytes], deque[int]] = defaultdict(deque)
    for row, position in enumerate(calls):
        rows[comparison.call_key(made[position])].append(row)
    pairs: list[_Pair] = []
    last_row, last_column = 0, 0
    for column, at in enumerate(places):
        queue = rows.get(comparison.call_key(expected[at]))
        while queue and queue[0] < last_row:
            queue.popleft()
        # A call far ahead would leave all calls before it without a partner.
        if queue and queue[0] - last_row <= column - last_column + _LOOK_AHEAD:
            row = queue.popleft()
            pairs += _by_position(calls[last_row:row], places[last_column:column])
            pairs.append((calls[row], at))
            last_row, last_column = row + 1, column + 1
    return pairs + _by_position(calls[last_row:], places[last_column:])


_LOOK_AHEAD = 20


def _by_position(calls: Sequence[int], places: Sequence[int]) -> list[_Pair]:
    longest = max(len(calls), len(places))
    return [(calls[at] if at < len(calls) else None, places[at] if at < len(places) else None) for at in range(longest)]


def _weight(comparison: CallComparison, made: ToolCall, expected: ExpectedCall) -> int:
    if made.name != expected.name:
        return _OTHER
    return _NAMED if made.arguments is None or comparison.wrong_arguments(made, expected) else _SAME
