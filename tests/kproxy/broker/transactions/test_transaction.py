from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import pytest

from kproxy.broker.errors import Error, Refused
from kproxy.broker.transactions import Producer, Transaction, TransactionState

LAST = 32766  # epoch that a producer can have


def new_ids() -> Callable[[], int]:
    return itertools.count(100).__next__


def begun(epoch: int = 0, version: int = 2) -> Transaction:
    """Ongoing, of producer 7 with that epoch."""
    transaction = Transaction("t", Producer(7, epoch), 60_000, 0)
    transaction.add([("a", 0)], ["g"], version, 5)
    return transaction


def ended(commit: bool, epoch: int = 0, version: int = 2) -> Transaction:
    """Complete; in version 2 the producer's epoch is one more now."""
    transaction = begun(epoch, version)
    transaction.prepare(commit, version, new_ids(), 6)
    transaction.complete(7)
    return transaction


def error_of(call: Callable[[], object]) -> Error:
    """What the call is refused with; NONE if it is not."""
    try:
        call()
    except Refused as refused:
        return refused.error
    return Error.NONE


def test_the_first_producer_has_epoch_0_and_the_next_one_more() -> None:
    transaction = Transaction("t", Producer(7, -1), 1000, 0)
    transaction.renew(1000, None, new_ids(), 1)
    assert transaction.producer == (7, 0)
    transaction.renew(2000, None, new_ids(), 2)
    assert (transaction.producer, transaction.timeout_ms) == ((7, 1), 2000)


def test_a_new_producer_id_follows_when_the_epochs_are_used_up() -> None:
    transaction = Transaction("t", Producer(7, LAST), 1000, 0)
    transaction.renew(1000, None, new_ids(), 1)
    assert transaction.producer == (100, 0)


def test_who_comes_back_with_its_epoch_gets_the_next_and_may_ask_again() -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0)
    for _ in range(2):
        transaction.check_renewal(Producer(7, 3))
        transaction.renew(1000, Producer(7, 3), new_ids(), 1)
        assert transaction.producer == (7, 4)


def test_who_comes_back_after_another_began_is_fenced() -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0)
    transaction.renew(1000, None, new_ids(), 1)
    assert error_of(lambda: transaction.renew(1000, Producer(7, 3), new_ids(), 2)) is Error.PRODUCER_FENCED


def test_who_comes_back_with_another_id_is_fenced_unless_its_epochs_are_used_up() -> None:
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
def test_only_its_producer_adds_to_it(producer: Producer, error: Error) -> None:
    assert error_of(lambda: begun(epoch=3).check_addition(producer)) is error
    assert error_of(lambda: begun(epoch=3).check_participant(producer, ("a", 0), None)) is error


@pytest.mark.parametrize(("topic", "group"), [("b", None), (None, "h")])
def test_what_was_not_added_is_not_part_of_it(topic: str | None, group: str | None) -> None:
    place = None if topic is None else (topic, 0)
    assert error_of(lambda: begun().check_participant(Producer(7, 0), place, group)) is Error.TRANSACTION_ABORTABLE
    begun().check_participant(Producer(7, 0), None, "g")


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_while_it_completes_everything_has_to_wait(commit: bool, version: int) -> None:
    transaction = begun(version=version)
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
    ("state", "commit", "answer"),
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
def test_ends_of_clients_before_version_2(state: TransactionState, commit: bool, answer: bool | Error) -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0, state=state)
    if isinstance(answer, Error):
        assert error_of(lambda: transaction.check_end(Producer(7, 3), commit, 0)) is answer
    else:
        assert transaction.check_end(Producer(7, 3), commit, 0) is answer
    assert error_of(lambda: transaction.check_end(Producer(7, 2), commit, 0)) is Error.PRODUCER_FENCED
    assert error_of(lambda: transaction.check_end(Producer(8, 3), commit, 0)) is Error.INVALID_PRODUCER_ID_MAPPING


# The table in TransactionCoordinator.endTransaction: who asks again has the epoch before.
@pytest.mark.parametrize(
    ("state", "commit", "again", "answer"),
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
def test_ends_of_clients_from_version_2_on(
    state: TransactionState, commit: bool, again: bool, answer: bool | Error
) -> None:
    transaction = Transaction("t", Producer(7, 3), 1000, 0, state=state)
    producer = Producer(7, 2 if again else 3)
    if isinstance(answer, Error):
        assert error_of(lambda: transaction.check_end(producer, commit, 2)) is answer
    else:
        assert transaction.check_end(producer, commit, 2) is answer


def test_from_version_2_on_every_end_bumps_the_epoch() -> None:
    assert ended(commit=True, version=0).producer == (7, 0)
    assert ended(commit=True, version=2).producer == (7, 1)
    assert ended(commit=False, version=2).producer == (7, 1)


def test_the_last_epoch_ends_with_a_new_producer_id_which_the_marker_does_not_have() -> None:
    transaction = begun(epoch=LAST)
    transaction.prepare(True, 2, new_ids(), 6)
    assert transaction.producer == (7, LAST + 1)
    assert transaction.successor == (100, 0)
    transaction.complete(7)
    assert transaction.producer == (100, 0)
    assert transaction.check_end(Producer(7, LAST), True, 2) is False


@pytest.mark.parametrize("version", [0, 2])
def test_a_fenced_producer_is_aborted_with_the_next_epoch(version: int) -> None:
    transaction = begun(epoch=3, version=version)
    transaction.fence(version, new_ids(), 6)
    assert (transaction.state, transaction.producer) == (TransactionState.PREPARE_ABORT, (7, 4))
    transaction.complete(7)
    assert error_of(lambda: transaction.check_addition(Producer(7, 3))) is Error.PRODUCER_FENCED


def test_nothing_of_the_last_transaction_is_in_the_next() -> None:
    transaction = ended(commit=True)
    transaction.add([("b", 1)], [], 2, 9)
    assert (transaction.places, transaction.groups, transaction.started_at) == ({("b", 1)}, set(), 9)


def test_comes_back_from_a_journal_as_it_was() -> None:
    transaction = begun(epoch=LAST)
    transaction.prepare(False, 2, new_ids(), 6)
    assert Transaction.restored("t", json.loads(json.dumps(transaction.stored()))) == transaction
