"""A source that hangs delays nobody."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

from dissectors.values import NotRegistered, Schema, SchemaKey
from kproxy.registry.background import NOT_YET, BackgroundSource

FIRST, SECOND = SchemaKey("id", 1), SchemaKey("id", 2)
SCHEMA = Schema("AVRO", '"int"')


class Slow:
    """A source that answers when it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.asked: list[list[SchemaKey]] = []
        self.answer: Schema | str | Exception = SCHEMA
        self.on_answer = lambda: None

    def lookup(self, keys: Iterable[SchemaKey]) -> dict[SchemaKey, Schema | str]:
        keys = [*keys]
        self.asked.append(keys)
        self.released.wait()
        self.on_answer()
        if isinstance(self.answer, Exception):
            raise self.answer
        return dict.fromkeys(keys, self.answer)


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.released.set()


def test_a_source_that_answers_is_waited_for(slow: Slow) -> None:
    slow.released.set()
    source = BackgroundSource(slow, timeout=60)
    assert source.lookup([FIRST]) == {FIRST: SCHEMA}
    assert source.lookup([FIRST]) == {FIRST: SCHEMA}
    assert slow.asked == [[FIRST]]
    assert source.lookup([]) == {}


def test_a_source_that_hangs_costs_its_patience_once(slow: Slow) -> None:
    source = BackgroundSource(slow, timeout=0.01)
    assert source.lookup([FIRST]) == {FIRST: NOT_YET}
    source._patience = 60  # a wait now would be noticed
    assert source.lookup([FIRST, SECOND]) == {FIRST: NOT_YET, SECOND: NOT_YET}
    slow.released.set()
    with source._changed:
        assert source._changed.wait_for(lambda: not (source._waiting or source._asked), 60)
    assert source.lookup([FIRST, SECOND]) == {FIRST: SCHEMA, SECOND: SCHEMA}
    assert slow.asked == [[FIRST], [SECOND]]


def test_lookups_at_a_slow_source_wait_no_longer_in_total(slow: Slow) -> None:
    now = 0.0
    first, second, third, fourth = (SchemaKey("id", number) for number in range(4))
    source = BackgroundSource(slow, timeout=60, now=lambda: now)
    slow.released.set()

    def takes(seconds: float) -> None:
        nonlocal now
        now += seconds

    slow.on_answer = lambda: takes(31)
    assert source.lookup([first]) == {first: SCHEMA}
    assert source.lookup([second]) == {second: SCHEMA}
    slow.released.clear()
    assert source.lookup([third]) == {third: NOT_YET}  # at once: earlier ones have waited for 62 s
    slow.released.set()
    with source._changed:
        assert source._changed.wait_for(lambda: third in source._known, 60)
    takes(1)
    assert source.lookup([fourth]) == {fourth: SCHEMA}


def test_what_waits_is_bounded(slow: Slow) -> None:
    source = BackgroundSource(slow, timeout=0)
    source.lookup([FIRST])
    for number in range(2, 2000):
        assert source.lookup([SchemaKey("id", number)]) == {SchemaKey("id", number): NOT_YET}
    assert len(source._waiting) <= 100


@pytest.mark.parametrize(("answer", "kept"), [(NotRegistered("there is none"), 60), ("it is down", 1)])
def test_an_answer_without_a_schema_is_kept_for_a_while(slow: Slow, answer: str, kept: float) -> None:
    slow.released.set()
    slow.answer = answer
    now = 0.0
    source = BackgroundSource(slow, timeout=60, now=lambda: now)
    assert source.lookup([FIRST]) == {FIRST: answer}
    now = kept - 0.5
    source.lookup([FIRST])
    assert len(slow.asked) == 1
    now, slow.answer = kept, SCHEMA
    assert source.lookup([FIRST, SECOND])[SECOND] == SCHEMA  # the first is asked for again meanwhile
    assert source.lookup([FIRST]) == {FIRST: SCHEMA}


def test_a_bug_in_the_source_is_an_answer(slow: Slow) -> None:
    slow.released.set()
    slow.answer = ZeroDivisionError()
    assert BackgroundSource(slow, timeout=60).lookup([FIRST]) == {
        FIRST: "looking up its schema failed with ZeroDivisionError"
    }
