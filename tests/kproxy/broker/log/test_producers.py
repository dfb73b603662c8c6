from __future__ import annotations

import pytest

from kproxy.broker.errors import Error, Refused
from kproxy.broker.log import Log
from tests.kproxy.broker.log.sample_logs import NOW, log, sent, write

LAST = 2**31 - 1


def produce(to: Log, sequence: int, *, count: int = 2, epoch: int = 0, transactional: bool = False) -> int:
    batch = sent(count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, is_transactional=transactional)
    return write(to, batch).base_offset


def refused(to: Log, sequence: int, *, epoch: int = 0, transactional: bool = False) -> Error:
    end = to.end_offset
    with pytest.raises(Refused) as caught:
        produce(to, sequence, epoch=epoch, transactional=transactional)
    assert to.end_offset == end
    return caught.value.error


def test_sequences_follow_each_other() -> None:
    to = log()
    assert [produce(to, sequence) for sequence in (0, 2, 4)] == [0, 2, 4]
    assert refused(to, 8) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(to, 5) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_one_of_the_last_five_batches_again_gets_its_answer_again() -> None:
    to = log()
    for sequence in range(0, 14, 2):
        produce(to, sequence)
    assert [produce(to, sequence) for sequence in (4, 6, 12)] == [4, 6, 12]
    assert to.end_offset == 14
    assert refused(to, 2) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_begin_again_behind_the_greatest() -> None:
    to = log()
    produce(to, LAST - 1)
    assert produce(to, 0) == 2
    assert produce(to, LAST - 1) == 0


def test_a_batch_may_go_over_the_greatest_sequence() -> None:
    to = log()
    produce(to, LAST, count=3)
    assert produce(to, 2) == 3


def test_a_producer_that_nobody_knows_may_begin_anywhere() -> None:
    assert produce(log(), 99) == 0


def test_a_new_epoch_begins_with_0_and_ends_the_one_before() -> None:
    to = log()
    produce(to, 0)
    assert refused(to, 2, epoch=1) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(to, 0, epoch=1) == 2
    assert refused(to, 2) is Error.INVALID_PRODUCER_EPOCH


def test_a_transaction_holds_back_what_comes_behind_it_until_its_marker() -> None:
    to = log()
    write(to, sent(3))
    produce(to, 0, transactional=True)
    write(to, sent(4))
    assert (to.last_stable_offset, to.high_watermark) == (3, 9)
    assert to.append_marker(7, 0, 0, commit=True) == 9
    assert to.last_stable_offset == 10
    assert to.aborted(0, 10) == []


def test_an_aborted_transaction_is_remembered() -> None:
    to = log()
    produce(to, 0, transactional=True)
    write(to, sent(4))
    to.append_marker(7, 0, 0, commit=False)
    [aborted] = to.aborted(0, 7)
    assert aborted == (7, 0, 6, 7)
    assert to.aborted(6, 7) == [aborted]
    assert to.aborted(7, 9) == []
    to.delete_before(7)
    assert to.aborted(0, 99) == []


def test_an_open_transaction_takes_no_other_batches_of_its_producer() -> None:
    to = log()
    produce(to, 0, transactional=True)
    assert refused(to, 2) is Error.INVALID_TXN_STATE


def test_a_marker_fences_older_epochs_of_producer_and_coordinator() -> None:
    to = log()
    produce(to, 0, transactional=True)
    to.append_marker(7, 3, 5, commit=False)
    assert refused(to, 2, transactional=True) is Error.INVALID_PRODUCER_EPOCH
    with pytest.raises(Refused) as caught:
        to.append_marker(7, 2, 5, commit=True)
    assert caught.value.error is Error.INVALID_PRODUCER_EPOCH
    with pytest.raises(Refused) as caught:
        to.append_marker(7, 3, 4, commit=True)
    assert caught.value.error is Error.TRANSACTION_COORDINATOR_FENCED
    assert produce(to, 0, epoch=3, transactional=True) == 3


def test_who_wrote_nothing_for_long_is_forgotten_unless_in_a_transaction() -> None:
    to = log()
    produce(to, 0)
    write(to, sent(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True))
    to.producers.expire(NOW + 100)
    assert [state.id for state in to.producers] == [8]
