from __future__ import annotations

import pytest

from kproxy.broker.log.epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    """Epoch 0 wrote offsets 0 to 9, epoch 2 wrote 10 to 19, epoch 5 starts at 20; epochs 1 and 3 wrote nothing."""
    epochs = LeaderEpochs()
    for epoch, offset in ((0, 0), (1, 10), (2, 10), (3, 20), (5, 20)):
        epochs.begin(epoch, offset)
    return epochs


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (0, 10)), (2, (2, 20)), (4, (2, 20)), (5, (5, 30)), (6, (-1, -1))],
)
def test_finds_the_end_offset_of_an_epoch(epochs: LeaderEpochs, epoch: int, expected: tuple[int, int]) -> None:
    assert epochs.end(epoch, 30) == expected


def test_finds_the_epoch_at_an_offset(epochs: LeaderEpochs) -> None:
    assert [epochs.at(offset) for offset in (0, 9, 10, 19, 20, 99)] == [0, 0, 2, 2, 5, 5]


def test_ignores_an_older_epoch(epochs: LeaderEpochs) -> None:
    epochs.begin(4, 25)
    assert epochs.latest == 5


def test_deleted_offsets_have_no_epoch(epochs: LeaderEpochs) -> None:
    epochs.forget_before(15)
    assert epochs.at(14) == -1
    assert epochs.end(1, 30) == (1, 15)
    assert epochs.end(2, 30) == (2, 20)
