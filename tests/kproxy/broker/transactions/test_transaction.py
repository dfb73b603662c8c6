from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest

from kproxy.broker.errors import ApiError, Error
from kproxy.broker.transactions import Producer, Transaction, TransactionState

LAST = 32766  # the last epoch that a producer can have


def new_ids() -> Callable[[], int]:
    return itertools.count(100).__next__


def ongoing_transaction(epoch: int = 0, version: int = 2) -> Transaction:
    """Return an ongoing transaction of producer 7 with this epoch."""
    transaction = Transaction("t", Producer(7, epoch), 60_000, 0)
    transaction.add([("a", 0)], ["g"], version, 5)
    return transaction


def completed_transaction(commit: bool, epoch: int = 0, version: int = 2) -> Transaction:
    """Return a completed transaction; version 2 has bumped its producer epoch."""
    transaction = ongoing_transaction(epoch, version)
    transaction.prepare(commit, version, new_ids(), 6)
    transaction.complete(7)
    return transaction


def error_of(call: Callable[[], object]) -> Error:
    """Return the error of a call that is refused, or NONE if it succeeds."""
    try:
        call()
    except ApiError as refused:
        return refused.error
    return Error.NONE


def test_first_producer_has_epoch_0_and_the_next_has_epoch_1() -> None:
    transaction = Transaction("t", Producer(7, -1), 1000, 0)
    transaction.renew(1000, None, new_ids(), 1)
    assert transaction.producer == (7, 0)
    transaction.renew(2000, None, new_ids(), 2)
    assert (transaction.producer, transaction.timeout_ms) == ((7, 1), 2000)


def test_exhausted_epochs_allocate_a_new_producer_id() -> None:
    transaction = Transaction("t", Producer(7, LAST), 1000, 0)
    transaction.renew(1000, None, new_ids(), 1)
    assert transaction.producer == (100, 0)


def test_producer_that_renews_gets_the_next_epoch_and_may_retry() -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0)
    for _ in range(2):
        transaction.check_renewal(Producer(7, 3))
        transaction.renew(1000, Producer(7, 3), new_ids(), 1)
        assert transaction.producer == (7, 4)


def test_renewal_after_a_newer_producer_is_fenced() -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0)
    transaction.renew(1000, None, new_ids(), 1)
    assert error_of(lambda: transaction.renew(1000, Producer(7, 3), new_ids(), 2)) is Error.PRODUCER_FENCED


def test_renewal_with_a_different_id_is_fenced_unless_its_epochs_are_exhausted() -> None:
    transaction = Transaction("t", Producer(7, LAST), 1000, 0)
    assert error_of(lambda: transaction.check_renewal(Producer(8, 0))) is Error.PRODUCER_FENCED
    transaction.renew(1000, Producer(7, LAST), new_ids(), 1)
    assert transaction.producer == (100, 0)
    transaction.check_renewal(Producer(7, LAST))
    transaction.renew(1000, Producer(7, LAST), new_ids(), 2)
    assert transaction.producer == (100, 0)


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        (Producer(7, 3), Error.NONE),
        (Producer(7, 2), Error.PRODUCER_FENCED),
        (Producer(7, 4), Error.PRODUCER_FENCED),
        (Producer(8, 3), Error.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_only_the_current_producer_may_add_to_a_transaction(producer: Producer, error: Error) -> None:
    assert error_of(lambda: ongoing_transaction(epoch=3).check_addition(producer)) is error
    assert error_of(lambda: ongoing_transaction(epoch=3).check_participant(producer, ("a", 0), None)) is error


@pytest.mark.parametrize(("topic", "group"), [("b", None), (None, "h")])
def test_undeclared_partitions_and_groups_do_not_take_part(topic: str | None, group: str | None) -> None:
    topic_partition = None if topic is None else (topic, 0)
    assert (
        error_of(lambda: ongoing_transaction().check_participant(Producer(7, 0), topic_partition, group))
        is Error.TRANSACTION_ABORTABLE
    )
    ongoing_transaction().check_participant(Producer(7, 0), None, "g")


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_every_request_must_wait_while_a_transaction_completes(commit: bool, version: int) -> None:
    transaction = ongoing_transaction(version=version)
    transaction.prepare(commit, version, new_ids(), 6)
    producer = transaction.producer
    for call in (
        lambda: transaction.check_addition(producer),
        lambda: transaction.check_participant(producer, ("a", 0), None),
        lambda: transaction.check_renewal(None),
        lambda: transaction.check_end(producer, commit, version),
        lambda: transaction.check_end(producer, not commit, version),
    ):
        assert error_of(call) is Error.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("state", "commit", "expected"),
    [
        (TransactionState.ONGOING, True, True),
        (TransactionState.ONGOING, False, True),
        (TransactionState.COMPLETE_COMMIT, True, False),
        (TransactionState.COMPLETE_COMMIT, False, Error.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_ABORT, False, False),
        (TransactionState.COMPLETE_ABORT, True, Error.INVALID_TXN_STATE),
        (TransactionState.EMPTY, True, Error.INVALID_TXN_STATE),
        (TransactionState.EMPTY, False, Error.INVALID_TXN_STATE),
    ],
)
def test_end_before_version_2_depends_on_the_state(
    state: TransactionState, commit: bool, expected: bool | Error
) -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0, state=state)
    if isinstance(expected, Error):
        assert error_of(lambda: transaction.check_end(Producer(7, 3), commit, 0)) is expected
    else:
        assert transaction.check_end(Producer(7, 3), commit, 0) is expected
    assert error_of(lambda: transaction.check_end(Producer(7, 2), commit, 0)) is Error.PRODUCER_FENCED
    assert error_of(lambda: transaction.check_end(Producer(8, 3), commit, 0)) is Error.INVALID_PRODUCER_ID_MAPPING


# As in the table in TransactionCoordinator.endTransaction; a retry has the previous epoch.
@pytest.mark.parametrize(
    ("state", "commit", "is_retry", "expected"),
    [
        (TransactionState.EMPTY, False, True, Error.PRODUCER_FENCED),
        (TransactionState.EMPTY, False, False, True),
        (TransactionState.EMPTY, True, True, Error.PRODUCER_FENCED),
        (TransactionState.EMPTY, True, False, Error.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_ABORT, False, True, False),
        (TransactionState.COMPLETE_ABORT, False, False, True),
        (TransactionState.COMPLETE_ABORT, True, True, Error.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_ABORT, True, False, Error.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_COMMIT, False, True, Error.INVALID_TXN_STATE),
        (TransactionState.COMPLETE_COMMIT, False, False, True),
        (TransactionState.COMPLETE_COMMIT, True, True, False),
        (TransactionState.COMPLETE_COMMIT, True, False, Error.INVALID_TXN_STATE),
        (TransactionState.ONGOING, True, True, Error.PRODUCER_FENCED),
        (TransactionState.ONGOING, True, False, True),
    ],
)
def test_end_since_version_2_depends_on_the_state_and_epoch(
    state: TransactionState, commit: bool, is_retry: bool, expected: bool | Error
) -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0, state=state)
    producer = Producer(7, 2 if is_retry else 3)
    if isinstance(expected, Error):
        assert error_of(lambda: transaction.check_end(producer, commit, 2)) is expected
    else:
        assert transaction.check_end(producer, commit, 2) is expected


def test_every_end_bumps_the_epoch_since_version_2() -> None:
    assert completed_transaction(commit=True, version=0).producer == (7, 0)
    assert completed_transaction(commit=True, version=2).producer == (7, 1)
    assert completed_transaction(commit=False, version=2).producer == (7, 1)


def test_last_epoch_ends_with_a_new_producer_id_but_the_marker_keeps_the_old_one() -> None:
    transaction = ongoing_transaction(epoch=LAST)
    transaction.prepare(True, 2, new_ids(), 6)
    assert transaction.producer == (7, LAST + 1)
    assert transaction.successor == (100, 0)
    transaction.complete(7)
    assert transaction.producer == (100, 0)
    assert transaction.check_end(Producer(7, LAST), True, 2) is False


@pytest.mark.parametrize("version", [0, 2])
def test_fencing_aborts_with_the_next_epoch(version: int) -> None:
    transaction = ongoing_transaction(epoch=3, version=version)
    transaction.fence(version, new_ids(), 6)
    assert (transaction.state, transaction.producer) == (TransactionState.PREPARE_ABORT, (7, 4))
    transaction.complete(7)
    assert error_of(lambda: transaction.check_addition(Producer(7, 3))) is Error.PRODUCER_FENCED


def test_new_transaction_starts_empty() -> None:
    transaction = completed_transaction(commit=True)
    transaction.add([("b", 1)], [], 2, 9)
    assert (transaction.partitions, transaction.groups, transaction.started_at) == ({("b", 1)}, set(), 9)


def test_journal_restores_a_transaction_unchanged() -> None:
    transaction = ongoing_transaction(epoch=LAST)
    transaction.prepare(False, 2, new_ids(), 6)
    assert Transaction.from_journal("t", json.loads(json.dumps(transaction.to_journal()))) == transaction
