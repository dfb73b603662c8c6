"""Frames that were broken without kproxy's own code: how often the first edit reproduces them; and no false alarms."""

from itertools import chain, islice

import pytest

from tests.independent import frames, payloads, valid
from tests.independent.accuracy import Tally, tally


def sample(each: int, per_payload: int) -> Tally:
    found = islice(frames.of_kafka(), 0, None, 1 if each > 10 else 9)
    return tally(chain(payloads.cases(per_payload, 1), frames.cases([*found, *frames.of_captures()], each, 1)))


def test_a_sample_of_broken_frames_is_explained() -> None:
    found = sample(1, 1)
    assert found.share("first") >= 0.95, f"{found}\n{found.missed[:10]}"
    assert found.share("none") <= 0.03, f"{found}\n{found.missed[:10]}"


@pytest.mark.wide
def test_each_family_of_broken_frames_is_explained() -> None:
    found = sample(60, 20)
    print(f"\n{found}")  # noqa: T201  # the table is for people
    assert found.share("first") + found.share("twin") >= 0.98, found.missed[:40]
    for family in found.families:
        assert found.share("first", family) + found.share("twin", family) >= 0.9, f"{family}: {found.missed[:40]}"


def test_frames_of_clients_and_brokers_have_no_unusual_value_and_no_diagnosis() -> None:
    assert valid.false_alarms(valid.of_captures())[1:] == (0, [])


def test_extreme_but_legal_values_are_no_errors() -> None:
    count, unusual, wrong = valid.false_alarms(islice(valid.of_kafka(), 0, None, 37))
    assert not wrong
    assert unusual > count / 10  # otherwise this tests nothing


@pytest.mark.wide
def test_no_row_of_kafkas_classes_is_an_error() -> None:
    assert valid.false_alarms(valid.of_kafka())[2] == []
