from __future__ import annotations

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.log import Log
from tests.kproxy.broker.log.sample_logs import NOW, new_log, produced_batch, write

LAST = 2**31 - 1


def produce(log: Log, sequence: int, *, count: int = 2, epoch: int = 0, transactional: bool = False) -> int:
    batch = produced_batch(
        count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, is_transactional=transactional
    )
    return write(log, batch).base_offset


def refused_error(log: Log, sequence: int, *, epoch: int = 0, transactional: bool = False) -> Error:
    end = log.end_offset
    with pytest.raises(ApiError) as caught:
        produce(log, sequence, epoch=epoch, transactional=transactional)
    assert log.end_offset == end
    return caught.value.error


def test_rejects_a_gap_in_the_sequence_numbers() -> None:
    log = new_log()
    assert [produce(log, sequence) for sequence in (0, 2, 4)] == [0, 2, 4]
    assert refused_error(log, 8) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused_error(log, 5) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_duplicate_of_one_of_the_last_five_batches_gets_its_original_offset() -> None:
    log = new_log()
    for sequence in range(0, 14, 2):
        produce(log, sequence)
    assert [produce(log, sequence) for sequence in (4, 6, 12)] == [4, 6, 12]
    assert log.end_offset == 14
    assert refused_error(log, 2) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_wraps_to_0_after_the_maximum() -> None:
    log = new_log()
    produce(log, LAST - 1)
    assert produce(log, 0) == 2
    assert produce(log, LAST - 1) == 0


def test_batch_may_cross_the_maximum_sequence() -> None:
    log = new_log()
    produce(log, LAST, count=3)
    assert produce(log, 2) == 3


def test_unknown_producer_may_start_at_any_sequence() -> None:
    assert produce(new_log(), 99) == 0


def test_new_epoch_starts_at_sequence_0_and_fences_the_previous_one() -> None:
    log = new_log()
    produce(log, 0)
    assert refused_error(log, 2, epoch=1) is Error.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, 0, epoch=1) == 2
    assert refused_error(log, 2) is Error.INVALID_PRODUCER_EPOCH


def test_open_transaction_holds_back_the_last_stable_offset() -> None:
    log = new_log()
    write(log, produced_batch(3))
    produce(log, 0, transactional=True)
    write(log, produced_batch(4))
    assert (log.last_stable_offset, log.high_watermark) == (3, 9)
    assert log.append_marker(7, 0, 0, commit=True) == 9
    assert log.last_stable_offset == 10
    assert log.aborted_transactions(0, 10) == []


def test_aborted_transaction_is_listed_until_it_is_deleted() -> None:
    log = new_log()
    produce(log, 0, transactional=True)
    write(log, produced_batch(4))
    log.append_marker(7, 0, 0, commit=False)
    [aborted] = log.aborted_transactions(0, 7)
    assert aborted == (7, 0, 6, 7)
    assert log.aborted_transactions(6, 7) == [aborted]
    assert log.aborted_transactions(7, 9) == []
    log.delete_before(7)
    assert log.aborted_transactions(0, 99) == []


def test_open_transaction_rejects_plain_batches_of_its_producer() -> None:
    log = new_log()
    produce(log, 0, transactional=True)
    assert refused_error(log, 2) is Error.INVALID_TXN_STATE


def test_marker_fences_older_producer_and_coordinator_epochs() -> None:
    log = new_log()
    produce(log, 0, transactional=True)
    log.append_marker(7, 3, 5, commit=False)
    assert refused_error(log, 2, transactional=True) is Error.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as caught:
        log.append_marker(7, 2, 5, commit=True)
    assert caught.value.error is Error.INVALID_PRODUCER_EPOCH
    with pytest.raises(ApiError) as caught:
        log.append_marker(7, 3, 4, commit=True)
    assert caught.value.error is Error.TRANSACTION_COORDINATOR_FENCED
    assert produce(log, 0, epoch=3, transactional=True) == 3


def test_idle_producer_expires_unless_it_is_in_a_transaction() -> None:
    log = new_log()
    produce(log, 0)
    write(log, produced_batch(producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True))
    log.producers.expire(NOW + 100)
    assert [state.id for state in log.producers] == [8]
