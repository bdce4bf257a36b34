"""Limits that workers share: rates and seats hold over all of them, whoever dies, freezes, or loses the database."""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.core.errors import StoreUnavailable
from assay.core.provider_limit import FoundLimit
from assay.integrations.postgres import PostgresLedger, PostgresLedgers
from assay.store.leases import ALL, LeaseGrant, LeaseRequest, LeaseStore, Pool, RunLimits, SharedFinding, grant_lease
from tests.store.databases import Database, run_in, running_database
from tests.store.samples import start_python

TERMS = RunLimits(seats={ALL: 10}, rates={"requests": 600.0, "tokens": 60_000.0}, life=3.0)
WORKERS = st.sampled_from("abcd")


class Desk:
    """A pool without a database, at a time of the test's own."""

    def __init__(self, terms: RunLimits = TERMS) -> None:
        self.pool, self.terms, self.now, self.number = Pool(), terms, 1000.0, 0

    def ask(self, worker: str, *, started: float = 0.0, **members: object) -> LeaseGrant:
        self.number += 1
        need = msgspec.convert({"worker": worker, "number": self.number, **members}, LeaseRequest)
        self.pool, grant = grant_lease(self.pool, need, self.terms, now=self.now, started=started)
        return grant

    def wants(self, worker: str, seats: int, *, held: int = 0, started: float = 0.0) -> int:
        """The seats that a worker gets."""
        return self.ask(worker, wanted={ALL: seats}, held={ALL: held}, started=started).seats[ALL]


def test_what_one_worker_spends_is_told_to_the_next() -> None:
    desk = Desk()
    assert desk.ask("a", spent=1.0).spent == 1.0
    assert desk.ask("b", spent=0.5).spent == 1.5


def test_a_question_that_is_repeated_spends_nothing_twice() -> None:
    desk = Desk()
    desk.ask("a", spent=1.0)
    desk.number -= 1
    assert desk.ask("a", spent=1.0).spent == 1.0


@given(st.lists(st.tuples(WORKERS, st.floats(0, 900), st.floats(0, 2)), min_size=1, max_size=40))
def test_the_shares_of_a_rate_are_never_more_than_the_rate(asks: list[tuple[str, float, float]]) -> None:
    desk = Desk()
    granted, until = dict.fromkeys("abcd", 0.0), dict.fromkeys("abcd", 0.0)
    for worker, wanted, later in asks:
        desk.now += later
        for dead in [name for name in "abcd" if desk.now >= until[name]]:
            granted[dead] = 0.0
        granted[worker] = desk.ask(worker, wanted={"requests": wanted}).rates["requests"]
        until[worker] = desk.now + TERMS.life
        assert sum(granted.values()) <= 600.0 + 1e-6


def test_workers_with_calls_for_more_than_a_rate_get_equal_parts_of_what_the_others_leave() -> None:
    desk = Desk()
    for _ in range(3):
        found = {
            worker: desk.ask(worker, wanted={"requests": wanted}).rates["requests"]
            for worker, wanted in zip("abc", (100, 600, 600), strict=True)
        }
    assert found == {"a": 100.0, "b": 250.0, "c": 250.0}


@given(st.lists(st.tuples(WORKERS, st.sampled_from(["ask", "begin", "end"]), st.integers(0, 12), st.floats(0, 1)), max_size=80))
def test_calls_in_flight_are_never_more_than_the_cap(steps: list[tuple[str, str, int, float]]) -> None:
    desk = Desk()
    granted, flying, until = (dict.fromkeys("abcd", 0) for _ in range(3))
    for worker, step, count, later in steps:
        desk.now += later
        for dead in [name for name in "abcd" if desk.now >= until[name]]:
            granted[dead] = flying[dead] = 0
        if step == "ask":
            granted[worker] = desk.wants(worker, count, held=max(flying[worker], granted[worker]))
            until[worker] = desk.now + TERMS.life
        elif step == "begin":
            flying[worker] = max(flying[worker], min(granted[worker], flying[worker] + count))
        else:
            flying[worker] = max(0, flying[worker] - count)
        assert sum(flying.values()) <= 10


@pytest.mark.parametrize(
    ("wanted", "parts"),
    [
        ({"a": 3, "b": 4}, {"a": 3, "b": 4}),
        ({"a": 50, "b": 50}, {"a": 5, "b": 5}),
        ({"a": 2, "b": 50, "c": 50}, {"a": 2, "b": 4, "c": 4}),
        ({"a": 50, "b": 50, "c": 50}, {"a": 4, "b": 3, "c": 3}),
        ({"a": 0, "b": 50}, {"a": 0, "b": 10}),
    ],
)
def test_seats_go_in_equal_parts_to_those_who_want_more_than_there_is(wanted: dict[str, int], parts: dict[str, int]) -> None:
    desk = Desk()
    for _ in range(3):
        found = {worker: desk.wants(worker, seats) for worker, seats in wanted.items()}
    assert found == parts


def test_seats_in_use_are_given_to_nobody_else_until_they_are_given_back() -> None:
    desk = Desk()
    assert desk.wants("a", 10) == 10
    assert desk.wants("b", 10) == 0
    assert desk.wants("a", 10, held=10) == 5
    assert desk.wants("b", 10) == 0
    assert desk.wants("a", 10, held=7) == 5
    assert desk.wants("b", 10) == 3


def test_the_seats_of_a_worker_that_is_not_heard_of_come_back_when_its_lease_is_over() -> None:
    desk = Desk()
    desk.wants("a", 10)
    desk.now += TERMS.life - 0.1
    assert desk.wants("b", 10) == 0
    desk.now += 0.2
    assert desk.wants("b", 10) == 10


def test_what_was_held_while_the_database_was_away_is_held_until_its_holder_could_ask_again() -> None:
    desk = Desk()
    desk.wants("a", 10)
    desk.now += 100
    assert desk.wants("b", 10, started=desk.now - 1) == 0
    desk.now += TERMS.life
    assert desk.wants("b", 10, started=desk.now - 1 - TERMS.life) == 10


def test_a_worker_is_told_what_the_others_have_used() -> None:
    desk = Desk()
    desk.ask("a", used={"tokens": 5_000.0})
    desk.now += 2.0
    assert desk.ask("b").debts == {"requests": 0.0, "tokens": pytest.approx(3.0)}


def test_a_question_whose_answer_was_lost_charges_nothing_twice() -> None:
    need = LeaseRequest(worker="a", number=1, used={"tokens": 1_000.0})
    once, _ = grant_lease(Pool(), need, TERMS, now=1000.0, started=0.0)
    twice, _ = grant_lease(once, need, TERMS, now=1000.1, started=0.0)
    assert twice.dues == once.dues


def test_a_clock_that_is_set_back_gives_nothing_twice() -> None:
    desk = Desk()
    desk.ask("a", used={"tokens": 5_000.0})
    desk.now -= 10.0
    assert desk.ask("b").debts["tokens"] == pytest.approx(5.0)
    desk.now -= 3600.0
    assert desk.ask("b").debts["tokens"] == pytest.approx(5.0)


def test_a_finding_is_told_to_the_others_with_the_rest_of_its_pause() -> None:
    desk, limit = Desk(), FoundLimit(kind="rate", limit=4.0)
    desk.ask("a", found={"openai": SharedFinding(limit=limit, paused_for=2.0)})
    desk.now += 0.5
    assert desk.ask("b").found == {"openai": (SharedFinding(limit=limit, paused_for=1.5),)}
    assert desk.ask("a").found == {}
    desk.now += TERMS.life
    assert desk.ask("b").found == {}


@pytest.mark.parametrize("started", [0.0, 999.0])
def test_the_seats_of_a_dead_worker_come_back_by_a_clock_that_was_set_back(started: float) -> None:
    desk = Desk()
    desk.wants("dead", 10, started=started)
    desk.now -= 100
    assert desk.wants("b", 10, started=started) == 0
    desk.now += TERMS.life
    assert desk.wants("b", 10, started=started) == 10


def test_a_refusal_is_told_to_the_others_as_long_as_its_worker_lives() -> None:
    desk = Desk()
    desk.ask("a", refused={"openai": "cXVvdGE="})
    assert desk.ask("b").refused == {"openai": b"quota"}
    desk.now += TERMS.life + 1
    assert desk.ask("b").refused == {}


@pytest.fixture
def run(database: Database) -> Iterator[PostgresLedger]:
    """A run in a database that other tests use too."""
    with run_in(database) as ledger:
        yield ledger


@pytest.fixture(scope="module")
def own() -> Iterator[Database]:
    """A PostgreSQL that may be restarted."""
    with running_database() as database:
        yield database


def highest_sum(leases: "list[LeaseStore]", own: Database | None = None) -> float:
    """The most that four workers, which ask in turn, have of a rate at the same time; the database may be restarted meanwhile."""
    granted, highest = [0.0] * len(leases), 0.0
    for number in range(1, 9):
        if own is not None and number == 5:
            own.restart_at_once()
        for worker, each in enumerate(leases):
            request = LeaseRequest(worker="abcd"[worker], number=number, wanted={"requests": 600.0})
            granted[worker] = each.ask(request, TERMS).rates["requests"]
            highest = max(highest, sum(granted))
    for each in leases:
        each.close()
    assert granted == [150.0] * 4
    return highest


def test_four_workers_keep_one_rate_by_the_clock_of_the_database(run: PostgresLedger) -> None:
    assert highest_sum([run.leases() for _ in range(4)]) <= 600.0


def test_a_rate_holds_over_restarts_of_the_database(own: Database) -> None:
    runs = PostgresLedgers(own.address)
    ledger = runs.create("restarted", plan=b"{}", plan_sha256="ab", at=1.0)
    assert highest_sum([ledger.leases() for _ in range(4)], own) <= 600.0
    ledger.close()
    runs.close()


HOLDING = """
import sys, time
from assay.store.leases import ALL, LeaseRequest
from assay.integrations.postgres import PostgresLedgers
from tests.store.test_leases import TERMS
leases = PostgresLedgers(sys.argv[1]).open(sys.argv[2]).leases()
for number in range(1, 1_000):
    grant = leases.ask(LeaseRequest(worker=f"child {sys.argv[3]}", number=number, held={ALL: 3}, wanted={ALL: 3}), TERMS)
    print(grant.seats[ALL], flush=True)
    time.sleep(0.1)
"""


def test_the_seats_of_killed_workers_come_back(database: Database, run: PostgresLedger) -> None:
    leases = run.leases()
    with ExitStack() as stack:
        children = [stack.enter_context(start_python(HOLDING, database.address, run.run_id, name)) for name in "abc"]
        assert [child.stdout.readline() for child in children if child.stdout] == ["3\n"] * 3
        assert leases.ask(LeaseRequest(worker="own", number=1, wanted={ALL: 10}), TERMS).seats[ALL] == 1
        for child in children:
            child.send_signal(signal.SIGKILL)
    number, seats = 1, 0
    while seats < 10:
        number += 1
        seats = leases.ask(LeaseRequest(worker="own", number=number, held={ALL: seats}, wanted={ALL: 10}), TERMS).seats[ALL]
        time.sleep(0.05)
    leases.close()


def test_a_worker_that_freezes_while_it_holds_the_lock_holds_up_nobody_for_long(database: Database, run: PostgresLedger) -> None:
    frozen, waking = run.leases(), threading.Event()
    frozen.ask(LeaseRequest(worker="frozen", number=1), TERMS)

    class Freezing(LeaseRequest, frozen=True):
        def __getattribute__(self, name: str) -> object:
            # The pool is read when a question is settled, under the lock.
            if name == "worker":
                waking.wait(60)
            return super().__getattribute__(name)

    with ThreadPoolExecutor(1) as pool:
        thawed = pool.submit(frozen.ask, Freezing(worker="frozen", number=2, wanted={ALL: 4}), TERMS)
        others = run.leases()
        while not _is_locked(database):
            time.sleep(0.01)
        assert others.ask(LeaseRequest(worker="other", number=1, wanted={ALL: 4}), TERMS).seats[ALL] == 4
        assert not thawed.done()
        waking.set()
        assert thawed.result().seats[ALL] == 4
    frozen.close()
    others.close()


def _is_locked(database: Database) -> bool:
    with psycopg.connect(database.address, autocommit=True) as looking:
        found = looking.execute("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'").fetchone()
    return found is not None and found[0] > 0


def test_a_worker_that_leaves_gives_back_everything(run: PostgresLedger) -> None:
    leases = run.leases()
    leases.ask(LeaseRequest(worker="a", number=1, wanted={ALL: 10}), TERMS)
    leases.leave("a")
    assert leases.ask(LeaseRequest(worker="b", number=1, wanted={ALL: 10}), TERMS).seats[ALL] == 10
    leases.close()


def test_the_last_worker_that_leaves_an_ended_run_leaves_nothing_behind(database: Database, run: PostgresLedger) -> None:
    run.set_state("queued", "cancelled", at=2.0)
    leases = run.leases()
    for worker in "ab":
        leases.ask(LeaseRequest(worker=worker, number=1), TERMS)
    kept = []
    for worker in "ab":
        leases.leave(worker)
        with psycopg.connect(database.address) as looking:
            kept += looking.execute("SELECT count(*) FROM pool JOIN run USING (run) WHERE run_id = %s", (run.run_id,)).fetchall()
    assert kept == [(1,), (0,)]
    leases.close()


def test_what_was_shared_is_removed_with_its_run(database: Database, run: PostgresLedger) -> None:
    leases, runs = run.leases(), PostgresLedgers(database.address)
    leases.ask(LeaseRequest(worker="a", number=1), TERMS)
    runs.remove(run.run_id)
    leases.leave("a")
    with pytest.raises(StoreUnavailable, match="foreign key"):
        leases.ask(LeaseRequest(worker="a", number=2), TERMS)
    leases.close()
    runs.close()
