"""Frames with, without and with a wrong length prefix."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissectors import schemas
from dissectors.messages.message import read_request, read_response
from kproxy.inspection.explain import AnsweredRequest
from kproxy.inspection.pasted_frames import PastedFrame, find_frames, pair_frames
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
        assert find_frames(frame, asked) == ([frame], False, None, None)
        assert find_frames(frame + frame, asked) == ([frame, frame], False, None, None)
        count += 1
    assert count > 3000


def test_a_missing_prefix_is_recognised_in_frames_of_every_api() -> None:
    found: Counter[bool] = Counter()
    for frame, asked in corpus():
        message = read_request(frame) if asked is None else read_response(frame, *asked)  # type: ignore[misc]
        if asked is not None and message.well_formed:
            given = find_frames(frame[4:], asked)
            found[given.missing] += 1
            assert given.frames == [frame if given.missing else frame[4:]]
    assert found[True] > 1000
    assert found[True] > 99 * found[False]  # some read well either way: those keep the prefix that they seem to have


@pytest.mark.parametrize("asked", [(10, 0), request("FindCoordinator", 0, {"key": "g"}), None])
def test_a_response_without_its_prefix(asked: AnsweredRequest) -> None:
    frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    assert find_frames(frame[4:], asked) == ([frame], True, None, None)


def test_a_request_without_its_prefix() -> None:
    frame = request("Metadata", 0, {"topics": [{"name": "a"}]})
    assert find_frames(frame[4:]) == ([frame], True, None, None)


@pytest.mark.parametrize("prefix", ["000000ff", "00000001", "7fffffff"])
def test_a_wrong_prefix_is_no_missing_one(prefix: str) -> None:
    answer = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    for right, asked in ((answer, (10, 0)), (request("Metadata", 0, {"topics": [{"name": "a"}]}), None)):
        frame = bytes.fromhex(prefix) + right[4:]
        given = find_frames(frame, asked)
        assert (given.frames, given.missing) == ([frame], False)
        assert given.problem is not None
        assert right[:4].hex(" ") in given.problem


def test_a_frame_that_is_cut_off_has_its_prefix() -> None:
    frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    for end in range(len(frame)):
        assert not find_frames(frame[:end], (10, 0)).missing


ASK = request("FindCoordinator", 0, {"key": "g"}, correlation_id=7)
REPLY = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132}, correlation_id=7)
NEXT = request("Metadata", 0, {"topics": [{"name": "a"}]}, correlation_id=8)


@pytest.mark.parametrize("cut", range(1, len(ASK)))
def test_frames_after_the_rest_of_another(cut: int) -> None:
    given = find_frames(ASK[cut:] + NEXT + ASK)
    assert given.frames == [NEXT, ASK]
    skipped = len(ASK) - cut
    assert given.note == f"the first {skipped} byte{'s' * (skipped != 1)} belong to an earlier frame: skipped"


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8, 11, len(REPLY) - 1])
def test_a_response_after_the_rest_of_another_is_found_by_its_request(cut: int) -> None:
    given = find_frames(REPLY[cut:] + REPLY, ASK)
    assert given.frames == [REPLY]


def test_a_cut_response_that_could_be_anywhere_is_not_searched() -> None:
    assert find_frames(REPLY[5:] + REPLY, (10, 0)).frames == [REPLY[5:] + REPLY]


@pytest.mark.parametrize("end", range(1, len(NEXT)))
def test_a_last_frame_that_is_cut_off(end: int) -> None:
    given = find_frames(ASK + NEXT[:end])
    if end < 8:
        assert given.frames == [ASK]
        assert given.note == f"the last {end} byte{'s' * (end != 1)} begin another frame: skipped"
    else:
        assert given.frames == [ASK, NEXT[:end]]
        assert (
            given.problem == f"the last frame is cut off: {end - 4} of {len(NEXT) - 4} bytes follow its length prefix"
        )


def test_a_prefix_that_is_too_large_may_mean_a_cut_frame() -> None:
    problem = find_frames(NEXT[:-2]).problem
    assert problem is not None
    assert "the frame is cut off, or the correct prefix is" in problem


def test_cut_at_both_ends_of_random_bytes_never_raises() -> None:
    rng = random.Random(19)
    stream = ASK + NEXT + ASK + NEXT
    for _ in range(3):
        start, end = sorted(rng.sample(range(len(stream) + 1), 2))
        data = bytearray(stream[start:end])
        if rng.random() < 0.5:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        found = find_frames(bytes(data))
        assert b"".join(found.frames) in bytes(data) or found.missing


@pytest.mark.parametrize(
    "streams", [[ASK + NEXT, REPLY], [REPLY, ASK + NEXT], [REPLY, ASK, NEXT], [REPLY[3:] + REPLY, ASK + NEXT]]
)
def test_a_response_follows_its_request(streams: list[bytes]) -> None:
    frames, notes = pair_frames(streams)
    assert frames == [PastedFrame(ASK, None), PastedFrame(REPLY, ASK), PastedFrame(NEXT, None)]
    assert len(notes) == (streams[0][0] != 0 or streams[0].startswith(REPLY[3:]))


def test_a_response_whose_request_was_not_pasted() -> None:
    other = response("FindCoordinator", 0, {"host": "h", "port": 1}, correlation_id=9)
    frames, notes = pair_frames([ASK, REPLY + other], (10, 0))
    assert frames == [PastedFrame(ASK, None), PastedFrame(REPLY, ASK), PastedFrame(other, (10, 0))]
    assert not notes
