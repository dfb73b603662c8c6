"""Run each way of `python -m tests.fuzz` on a few broken frames; thousands would take minutes."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from dissectors.failures import Failure
from dissectors.messages import value_annotations
from tests.fuzz import frames, ways
from tests.fuzz.__main__ import fuzz, report, run_chunk
from tests.fuzz.frames import Source
from tests.fuzz.mutations import MUTATIONS, mutate


@pytest.fixture(autouse=True)
def few_edited_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write only a few frames under layout edits, because writing them is slow."""
    monkeypatch.setattr(frames, "_EDITED", 20)


@pytest.mark.slow
@pytest.mark.parametrize("way", ways.WAYS)
def test_broken_frames_raise_no_exception(way: str) -> None:
    result = run_chunk(way, 0, 25)
    assert result["frames"] >= 25
    assert not result["raised"]


def test_same_seed_gives_the_same_frames() -> None:
    first, second = Source("a"), Source("a")
    assert [first.exchange(number) for number in range(50)] == [second.exchange(number) for number in range(50)]


def test_every_mutation_accepts_any_bytes() -> None:
    random = Random(1)
    for mutation in MUTATIONS:
        change_count = 0
        for size in (1, 2, 3, 5, 40):
            data = random.randbytes(size)
            change_count += mutation(random, data, b"other") != data
        assert change_count or mutation.__name__ == "grow"
    assert mutate(random, b"", b"", 8) == b""


def test_raising_frames_are_reported_with_their_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def raise_error(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(ways, "explain", raise_error)
    monkeypatch.setitem(ways.WAYS, "explain", (ways.run_explain, 3))
    monkeypatch.setitem(ways.WAYS, "inspector", (lambda *_: None, 0))
    monkeypatch.setitem(ways.WAYS, "dissect", (lambda *_: None, 0))
    for chunks in (1, 3):  # the second run continues where the first one ended
        fuzz(tmp_path / "fuzz.txt", chunks)
    first_chunk, *_, last_chunk = [json.loads(line) for line in (tmp_path / "fuzz.txt.jsonl").read_text().splitlines()]
    assert (first_chunk["chunk"], last_chunk["chunk"], last_chunk["way"]) == (0, 1, "explain")
    assert [failure["frame"] for failure in first_chunk["raised"]] == [0, 1, 2]
    assert all(bytes.fromhex(failure["hex"]) for failure in first_chunk["raised"])
    report_text = (tmp_path / "fuzz.txt").read_text()
    assert "explain: 6 frames" in report_text
    assert "6 raised" in report_text
    assert "6 times: ZeroDivisionError: a bug" in report_text


def test_failures_reported_by_kproxy_are_counted(
    monkeypatch: pytest.MonkeyPatch, internal_errors: list[Failure]
) -> None:
    def raise_error(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(value_annotations, "annotate", raise_error)
    result = run_chunk("explain", 0, 2)
    assert len(internal_errors) >= 1
    assert "ZeroDivisionError: a bug" in report([result])
