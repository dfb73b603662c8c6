from __future__ import annotations

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log import Log
from tests.kproxy.broker.log.sample_logs import NOW, log, produced_batch, write

LAST = 2**31 - 1


def produce(log_: Log, sequence: int, *, count: int = 2, epoch: int = 0, transactional: bool = False) -> int:
    batch = produced_batch(
        count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, is_transactional=transactional
    )
    return write(log_, batch).base_offset


def refused_error(log_: Log, sequence: int, *, epoch: int = 0, transactional: bool = False) -> Error:
    end = log_.end_offset
    with pytest.raises(ApiError) as caught:
        produce(log_, sequence, epoch=epoch, transactional=transactional)
    assert log_.end_offset == end
    return caught.value.error


def test_rejects_a_gap_in_the_sequence_numbers() -> None:
    to = log()
    assert [produce(to, sequence) for sequence in (0, 2, 4)] == [0, 2, 4]
    assert refused_error(to, 8) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused_error(to, 5) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_duplicate_of_one_of_the_last_five_batches_gets_its_original_offset() -> None:
    to = log()
    for sequence in range(0, 14, 2):
        produce(to, sequence)
    assert [produce(to, sequence) for sequence in (4, 6, 12)] == [4, 6, 12]
    assert to.end_offset == 14
    assert refused_error(to, 2) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_wraps_to_0_after_the_maximum() -> None:
    to = log()
    produce(to, LAST - 1)
    assert produce(to, 0) == 2
    assert produce(to, LAST - 1) == 0


def test_batch_may_cross_the_maximum_sequence() -> None:
    to = log()
    produce(to, LAST, count=3)
    assert produce(to, 2) == 3


def test_unknown_producer_may_start_at_any_sequence() -> None:
    assert produce(log(), 99) == 0


def test_new_epoch_starts_at_sequence_0_and_fences_the_previous_one() -> None:
    to = log()
    produce(to, 0)
    assert refused_error(to, 2, epoch=1) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(to, 0, epoch=1) == 2
    assert refused_error(to, 2) is Error.INVALID_PRODUCER_EPOCH


def test_open_transaction_holds_back_the_last_stable_offset() -> None:
    to = log()
    write(to, produced_batch(3))
    produce(to, 0, transactional=True)
    write(to, produced_batch(4))
    assert (to.last_stable_offset, to.high_watermark) == (3, 9)
    assert to.append_marker(7, 0, 0, commit=True) == 9
    assert to.last_stable_offset == 10
    assert to.aborted(0, 10) == []


def test_aborted_transaction_is_listed_until_it_is_deleted() -> None:
    to = log()
    produce(to, 0, transactional=True)
    write(to, produced_batch(4))
    to.append_marker(7, 0, 0, commit=False)
    [aborted] = to.aborted(0, 7)
    assert aborted == (7, 0, 6, 7)
    assert to.aborted(6, 7) == [aborted]
    assert to.aborted(7, 9) == []
    to.delete_before(7)
    assert to.aborted(0, 99) == []


def test_open_transaction_rejects_plain_batches_of_its_producer() -> None:
    to = log()
    produce(to, 0, transactional=True)
    assert refused_error(to, 2) is Error.INVALID_TXN_STATE


def test_marker_fences_older_producer_and_coordinator_epochs() -> None:
    to = log()
    produce(to, 0, transactional=True)
    to.append_marker(7, 3, 5, commit=False)
    assert refused_error(to, 2, transactional=True) is Error.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as caught:
        to.append_marker(7, 2, 5, commit=True)
    assert caught.value.error is Error.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as caught:
        to.append_marker(7, 3, 4, commit=True)
    assert caught.value.error is Error.TRANSACTION_COORDINATOR_FENCED
    assert produce(to, 0, epoch=3, transactional=True) == 3


def test_idle_producer_expires_unless_it_is_in_a_transaction() -> None:
    to = log()
    produce(to, 0)
    write(to, produced_batch(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True))
    to.producers.expire(NOW + 100)
    assert [state.id for state in to.producers] == [8]
