"""A schema source that hangs does not block lookups."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

from dissectors.values import NotRegistered, Schema, SchemaKey
from kproxy.registry.background import NOT_YET, BackgroundSource

FIRST, SECOND = SchemaKey("id", 1), SchemaKey("id", 2)
SCHEMA = Schema("AVRO", '"int"')


class SlowSource:
    """A source that does not respond until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.requested: list[list[SchemaKey]] = []
        self.result: Schema | str | Exception = SCHEMA
        self.before_response = lambda: None

    def lookup(self, keys: Iterable[SchemaKey]) -> dict[SchemaKey, Schema | str]:
        keys = [*keys]
        self.requested.append(keys)
        self.released.wait()
        self.before_response()
        if isinstance(self.result, Exception):
            raise self.result
        return dict.fromkeys(keys, self.result)


@pytest.fixture
def slow_source() -> Iterator[SlowSource]:
    slow_source = SlowSource()
    yield slow_source
    slow_source.released.set()


def test_lookup_waits_for_a_source_that_responds(slow_source: SlowSource) -> None:
    slow_source.released.set()
    source = BackgroundSource(slow_source, timeout=60)
    assert source.lookup([FIRST]) == {FIRST: SCHEMA}
    assert source.lookup([FIRST]) == {FIRST: SCHEMA}
    assert slow_source.requested == [[FIRST]]
    assert source.lookup([]) == {}


def test_hanging_source_delays_lookups_by_only_one_timeout(slow_source: SlowSource) -> None:
    source = BackgroundSource(slow_source, timeout=0.01)
    assert source.lookup([FIRST]) == {FIRST: NOT_YET}
    source._patience = 60  # from here on, any wait would make the test slow
    assert source.lookup([FIRST, SECOND]) == {FIRST: NOT_YET, SECOND: NOT_YET}
    slow_source.released.set()
    with source._changed:
        assert source._changed.wait_for(lambda: not (source._waiting or source._asked), 60)
    assert source.lookup([FIRST, SECOND]) == {FIRST: SCHEMA, SECOND: SCHEMA}
    assert slow_source.requested == [[FIRST], [SECOND]]


def test_total_wait_for_a_slow_source_is_limited(slow_source: SlowSource) -> None:
    now = 0.0
    first, second, third, fourth = (SchemaKey("id", number) for number in range(4))
    source = BackgroundSource(slow_source, timeout=60, now=lambda: now)
    slow_source.released.set()

    def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    slow_source.before_response = lambda: advance(31)
    assert source.lookup([first]) == {first: SCHEMA}
    assert source.lookup([second]) == {second: SCHEMA}
    slow_source.released.clear()
    assert source.lookup([third]) == {third: NOT_YET}  # does not wait: earlier lookups took 62 s
    slow_source.released.set()
    with source._changed:
        assert source._changed.wait_for(lambda: third in source._known, 60)
    advance(1)
    assert source.lookup([fourth]) == {fourth: SCHEMA}


def test_number_of_pending_lookups_is_limited(slow_source: SlowSource) -> None:
    source = BackgroundSource(slow_source, timeout=0)
    source.lookup([FIRST])
    for number in range(2, 2000):
        assert source.lookup([SchemaKey("id", number)]) == {SchemaKey("id", number): NOT_YET}
    assert len(source._waiting) <= 100


@pytest.mark.parametrize(("failure", "cached_s"), [(NotRegistered("there is none"), 60), ("it is down", 1)])
def test_failed_lookup_is_cached_for_a_while(slow_source: SlowSource, failure: str, cached_s: float) -> None:
    slow_source.released.set()
    slow_source.result = failure
    now = 0.0
    source = BackgroundSource(slow_source, timeout=60, now=lambda: now)
    assert source.lookup([FIRST]) == {FIRST: failure}
    now = cached_s - 0.5
    source.lookup([FIRST])
    assert len(slow_source.requested) == 1
    now, slow_source.result = cached_s, SCHEMA
    assert source.lookup([FIRST, SECOND])[SECOND] == SCHEMA  # meanwhile, the first key is looked up again
    assert source.lookup([FIRST]) == {FIRST: SCHEMA}


def test_source_exception_is_reported_as_a_failed_lookup(slow_source: SlowSource) -> None:
    slow_source.released.set()
    slow_source.result = ZeroDivisionError()
    assert BackgroundSource(slow_source, timeout=60).lookup([FIRST]) == {
        FIRST: "looking up its schema failed with ZeroDivisionError"
    }
