"""Frames with, without and with a wrong length prefix."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissectors import schemas
from dissectors.messages.message import read_request, read_response
from kproxy.inspection.explain import AnsweredRequest
from kproxy.inspection.length_prefix import framed
from tests.dissectors.embedded.samples import FRAMES
from tests.kproxy.frames import request, response

CORPUS = Path(__file__).parents[2] / "data" / "corpus-tame.jsonl.gz"


def corpus() -> Iterator[tuple[bytes, AnsweredRequest]]:
    """Kafka's own frames and those of real clients, with what they answer."""
    for raw in map(json.loads, gzip.decompress(CORPUS.read_bytes()).splitlines()):
        api = schemas.api_by_name(raw["api"].removesuffix("Request").removesuffix("Response"))
        if api is not None and "frame_hex" in raw:
            yield bytes.fromhex(raw["frame_hex"]), None if raw["api"].endswith("Request") else (api.key, raw["version"])
    for row in FRAMES.values():
        yield bytes.fromhex(row["frame"]), None if row["request"] else (row["api_key"], row["version"])


def test_frames_with_a_prefix_are_read_with_it() -> None:
    count = 0
    for frame, asked in corpus():
        assert framed(frame, asked) == ([frame], False, None)
        assert framed(frame + frame, asked) == ([frame, frame], False, None)
        count += 1
    assert count > 3000


def test_a_missing_prefix_is_recognised_in_frames_of_every_api() -> None:
    found: Counter[bool] = Counter()
    for frame, asked in corpus():
        message = read_request(frame) if asked is None else read_response(frame, *asked)  # type: ignore[misc]
        if asked is not None and message.well_formed:
            given = framed(frame[4:], asked)
            found[given.missing] += 1
            assert given.frames == [frame if given.missing else frame[4:]]
    assert found[True] > 1000
    assert found[True] > 99 * found[False]  # some read well either way: those keep the prefix that they seem to have


@pytest.mark.parametrize("asked", [(10, 0), request("FindCoordinator", 0, {"key": "g"}), None])
def test_a_response_without_its_prefix(asked: AnsweredRequest) -> None:
    frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    assert framed(frame[4:], asked) == ([frame], True, None)


def test_a_request_without_its_prefix() -> None:
    frame = request("Metadata", 0, {"topics": [{"name": "a"}]})
    assert framed(frame[4:]) == ([frame], True, None)


@pytest.mark.parametrize("prefix", ["000000ff", "00000001", "7fffffff"])
def test_a_wrong_prefix_is_no_missing_one(prefix: str) -> None:
    answer = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    for right, asked in ((answer, (10, 0)), (request("Metadata", 0, {"topics": [{"name": "a"}]}), None)):
        frame = bytes.fromhex(prefix) + right[4:]
        given = framed(frame, asked)
        assert (given.frames, given.missing) == ([frame], False)
        assert given.problem is not None
        assert right[:4].hex(" ") in given.problem


def test_a_frame_that_is_cut_off_has_its_prefix() -> None:
    frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    for end in range(len(frame)):
        assert not framed(frame[:end], (10, 0)).missing
