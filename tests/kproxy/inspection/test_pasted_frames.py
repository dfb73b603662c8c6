"""Pasted frames with a correct, a missing or a wrong length prefix."""

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
    """Yield frames from Kafka and from real clients, each with the request that it answers."""
    for entry in map(json.loads, gzip.decompress(CORPUS.read_bytes()).splitlines()):
        api = schemas.api_by_name(entry["api"].removesuffix("Request").removesuffix("Response"))
        if api is not None and "frame_hex" in entry:
            yield (
                bytes.fromhex(entry["frame_hex"]),
                None if entry["api"].endswith("Request") else (api.key, entry["version"]),
            )
    for row in FRAMES.values():
        yield bytes.fromhex(row["frame"]), None if row["request"] else (row["api_key"], row["version"])


def test_frames_keep_their_length_prefix() -> None:
    count = 0
    for frame, answered_request in corpus():
        assert find_frames(frame, answered_request) == ([frame], False, None, None)
        assert find_frames(frame + frame, answered_request) == ([frame, frame], False, None, None)
        count += 1
    assert count > 3000


@pytest.mark.slow
def test_missing_prefix_is_recognised_in_frames_of_every_api() -> None:
    missing_counts: Counter[bool] = Counter()
    for frame, answered_request in corpus():
        message = read_request(frame) if answered_request is None else read_response(frame, *answered_request)  # type: ignore[misc]
        if answered_request is not None and message.well_formed:
            result = find_frames(frame[4:], answered_request)
            missing_counts[result.missing] += 1
            assert result.frames == [frame if result.missing else frame[4:]]
    assert missing_counts[True] > 1000
    # Some frames are valid either way and keep their apparent prefix.
    assert missing_counts[True] > 99 * missing_counts[False]


@pytest.mark.parametrize("answered_request", [(10, 0), request("FindCoordinator", 0, {"key": "g"}), None])
def test_adds_the_prefix_of_a_response(answered_request: AnsweredRequest) -> None:
    frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    assert find_frames(frame[4:], answered_request) == ([frame], True, None, None)


def test_adds_the_prefix_of_a_request() -> None:
    frame = request("Metadata", 0, {"topics": [{"name": "a"}]})
    assert find_frames(frame[4:]) == ([frame], True, None, None)


@pytest.mark.parametrize("prefix", ["000000ff", "00000001", "7fffffff"])
def test_wrong_prefix_is_not_taken_for_a_missing_one(prefix: str) -> None:
    response_frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    for valid_frame, answered_request in (
        (response_frame, (10, 0)),
        (request("Metadata", 0, {"topics": [{"name": "a"}]}), None),
    ):
        frame = bytes.fromhex(prefix) + valid_frame[4:]
        result = find_frames(frame, answered_request)
        assert (result.frames, result.missing) == ([frame], False)
        assert result.problem is not None
        assert valid_frame[:4].hex(" ") in result.problem


def test_truncated_frame_keeps_its_prefix() -> None:
    frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132})
    for end in range(len(frame)):
        assert not find_frames(frame[:end], (10, 0)).missing


FIND_COORDINATOR = request("FindCoordinator", 0, {"key": "g"}, correlation_id=7)
COORDINATOR_FOUND = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132}, correlation_id=7)
METADATA = request("Metadata", 0, {"topics": [{"name": "a"}]}, correlation_id=8)


@pytest.mark.parametrize("cut", range(1, len(FIND_COORDINATOR)))
def test_skips_the_rest_of_an_earlier_frame(cut: int) -> None:
    result = find_frames(FIND_COORDINATOR[cut:] + METADATA + FIND_COORDINATOR)
    assert result.frames == [METADATA, FIND_COORDINATOR]
    skipped = len(FIND_COORDINATOR) - cut
    assert result.note == f"the first {skipped} byte{'s' * (skipped != 1)} belong to an earlier frame: skipped"


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 8, 11, len(COORDINATOR_FOUND) - 1])
def test_finds_a_response_after_the_rest_of_an_earlier_one(cut: int) -> None:
    result = find_frames(COORDINATOR_FOUND[cut:] + COORDINATOR_FOUND, FIND_COORDINATOR)
    assert result.frames == [COORDINATOR_FOUND]


def test_does_not_search_for_a_response_without_its_request() -> None:
    assert find_frames(COORDINATOR_FOUND[5:] + COORDINATOR_FOUND, (10, 0)).frames == [
        COORDINATOR_FOUND[5:] + COORDINATOR_FOUND
    ]


@pytest.mark.parametrize("end", range(1, len(METADATA)))
def test_reports_a_truncated_last_frame(end: int) -> None:
    result = find_frames(FIND_COORDINATOR + METADATA[:end])
    if end < 8:
        assert result.frames == [FIND_COORDINATOR]
        assert result.note == f"the last {end} byte{'s' * (end != 1)} begin another frame: skipped"
    else:
        assert result.frames == [FIND_COORDINATOR, METADATA[:end]]
        assert (
            result.problem
            == f"the last frame is cut off: {end - 4} of {len(METADATA) - 4} bytes follow its length prefix"
        )


def test_excessive_prefix_is_reported_as_a_possibly_truncated_frame() -> None:
    problem = find_frames(METADATA[:-2]).problem
    assert problem is not None
    assert "the frame is cut off, or the correct prefix is" in problem


def test_truncated_and_damaged_bytes_never_raise() -> None:
    rng = random.Random(19)
    stream = FIND_COORDINATOR + METADATA + FIND_COORDINATOR + METADATA
    for _ in range(3):
        start, end = sorted(rng.sample(range(len(stream) + 1), 2))
        data = bytearray(stream[start:end])
        if rng.random() < 0.5:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        result = find_frames(bytes(data))
        assert b"".join(result.frames) in bytes(data) or result.missing


@pytest.mark.parametrize(
    "streams",
    [
        [FIND_COORDINATOR + METADATA, COORDINATOR_FOUND],
        [COORDINATOR_FOUND, FIND_COORDINATOR + METADATA],
        [COORDINATOR_FOUND, FIND_COORDINATOR, METADATA],
        [COORDINATOR_FOUND[3:] + COORDINATOR_FOUND, FIND_COORDINATOR + METADATA],
    ],
)
def test_response_follows_its_request(streams: list[bytes]) -> None:
    frames, notes = pair_frames(streams)
    assert frames == [
        PastedFrame(FIND_COORDINATOR, None),
        PastedFrame(COORDINATOR_FOUND, FIND_COORDINATOR),
        PastedFrame(METADATA, None),
    ]
    assert len(notes) == (streams[0][0] != 0 or streams[0].startswith(COORDINATOR_FOUND[3:]))


def test_response_without_its_request_uses_the_given_api() -> None:
    other_response = response("FindCoordinator", 0, {"host": "h", "port": 1}, correlation_id=9)
    frames, notes = pair_frames([FIND_COORDINATOR, COORDINATOR_FOUND + other_response], (10, 0))
    assert frames == [
        PastedFrame(FIND_COORDINATOR, None),
        PastedFrame(COORDINATOR_FOUND, FIND_COORDINATOR),
        PastedFrame(other_response, (10, 0)),
    ]
    assert not notes
