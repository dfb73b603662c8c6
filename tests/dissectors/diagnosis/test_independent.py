"""Frames broken without kproxy's own code are explained by the first edit, and valid frames give no false alarms."""

from itertools import chain, islice

import pytest

from tests.independent import frames, payloads, valid
from tests.independent.accuracy import Tally, tally


def sample_tally(per_family: int, per_payload: int) -> Tally:
    kafka_step, captured_step = (1, 1) if per_family > 10 else (20, 3)
    valid_frames = [
        *islice(frames.kafka_frames(), 0, None, kafka_step),
        *islice(frames.captured_frames(), 0, None, captured_step),
    ]
    return tally(chain(payloads.cases(per_payload, 1), frames.cases(valid_frames, per_family, 1)))


@pytest.mark.slow
def test_sample_of_broken_frames_is_explained() -> None:
    tally = sample_tally(1, 1)
    assert tally.share("first") >= 0.95, f"{tally}\n{tally.missed[:10]}"
    assert tally.share("none") <= 0.03, f"{tally}\n{tally.missed[:10]}"


@pytest.mark.wide
def test_each_family_of_broken_frames_is_explained() -> None:
    tally = sample_tally(60, 20)
    print(f"\n{tally}")  # noqa: T201  # show the table
    assert tally.share("first") + tally.share("twin") >= 0.98, tally.missed[:40]
    for family in tally.families:
        assert tally.share("first", family) + tally.share("twin", family) >= 0.9, f"{family}: {tally.missed[:40]}"


@pytest.mark.slow
def test_captured_frames_have_no_unusual_value_and_no_diagnosis() -> None:
    assert valid.false_alarms(valid.captured_messages())[1:] == (0, [])


@pytest.mark.slow
def test_extreme_but_legal_values_are_not_errors() -> None:
    count, unusual, false_alarms = valid.false_alarms(islice(valid.kafka_messages(), 0, None, 37))
    assert not false_alarms
    assert unusual > count / 10  # otherwise this tests nothing


@pytest.mark.wide
def test_frames_written_by_kafka_have_no_diagnosis() -> None:
    assert valid.false_alarms(valid.kafka_messages())[2] == []
