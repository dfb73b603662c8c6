"""Each way of `python -m tests.fuzz` over a few broken frames; thousands of them take minutes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from dissectors.failures import Failure
from dissectors.messages import value_annotations
from tests.fuzz import frames, ways
from tests.fuzz.__main__ import chunk, fuzz, report
from tests.fuzz.frames import Source
from tests.fuzz.mutations import MUTATIONS, mutated


@pytest.fixture(autouse=True)
def few_edited_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """These take long to make."""
    monkeypatch.setattr(frames, "_EDITED", 20)


@pytest.mark.parametrize("way", ways.WAYS)
def test_no_broken_frame_raises(way: str) -> None:
    made = chunk(way, 0, 25)
    assert made["frames"] >= 25
    assert not made["raised"]


def test_the_same_seed_gives_the_same_frames() -> None:
    one, other = Source("a"), Source("a")
    assert [one.exchange(number) for number in range(50)] == [other.exchange(number) for number in range(50)]


def test_every_mutation_takes_any_bytes() -> None:
    random = Random(1)
    for mutation in MUTATIONS:
        changed = 0
        for size in (1, 2, 3, 5, 40):
            data = random.randbytes(size)
            changed += mutation(random, data, b"other") != data
        assert changed or mutation.__name__ == "grow"
    assert mutated(random, b"", b"", 8) == b""


def test_frames_that_raise_are_reported_with_their_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(ways, "explain", broken)
    monkeypatch.setitem(ways.WAYS, "explain", (ways.explained, 3))
    monkeypatch.setitem(ways.WAYS, "inspector", (lambda *_: None, 0))
    monkeypatch.setitem(ways.WAYS, "dissect", (lambda *_: None, 0))
    for chunks in (1, 3):  # the second run continues where the first one ended
        fuzz(tmp_path / "fuzz.txt", chunks)
    first, *_, last = [json.loads(line) for line in (tmp_path / "fuzz.txt.jsonl").read_text().splitlines()]
    assert (first["chunk"], last["chunk"], last["way"]) == (0, 1, "explain")
    assert [each["frame"] for each in first["raised"]] == [0, 1, 2]
    assert all(bytes.fromhex(each["hex"]) for each in first["raised"])
    text = (tmp_path / "fuzz.txt").read_text()
    assert "explain: 6 frames" in text
    assert "6 raised" in text
    assert "6 times: ZeroDivisionError: a bug" in text


def test_failures_that_kproxy_reports_itself_count_too(
    monkeypatch: pytest.MonkeyPatch, internal_errors: list[Failure]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(value_annotations, "annotate", broken)
    made = chunk("explain", 0, 2)
    assert len(internal_errors) >= 1
    assert "ZeroDivisionError: a bug" in report([made])
