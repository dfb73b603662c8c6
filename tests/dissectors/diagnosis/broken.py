"""Broken frames: large ones of several kinds, and small mutations of realistic ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from dissectors.diagnosis.candidates import single_edits
from dissectors.diagnosis.diagnose import right_layout
from dissectors.edits import Edit, write
from dissectors.messages.message import Message, read_request, read_response
from dissectors.schemas import api_by_name
from dissectors.wire.errors import EncodeError
from dissectors.wire.layout import Layout
from tests.dissectors.diagnosis.cluster_values import Realistic
from tests.kproxy.frames import response, with_length_prefix
from tests.strategies import API_VERSIONS

MIB = 1 << 20


class Broken(NamedTuple):
    """A broken response to a request of this API and version, or a broken request if `is_request`."""

    frame: bytes
    key: int
    version: int
    is_request: bool = False

    @property
    def message(self) -> Message:
        """The message as the right layout reads it."""
        return read_request(self.frame) if self.is_request else read_response(self.frame, self.key, self.version)


def _broken_frame(api: str, version: int, frame: bytes) -> Broken:
    api_entry = api_by_name(api)
    assert api_entry is not None
    return Broken(frame, api_entry.key, version)


def _write_broken(api: str, version: int, body: dict[str, Any], edit: Edit) -> Broken:
    broken = _broken_frame(api, version, response(api, version, {}))
    layout = right_layout(broken.message)
    assert layout is not None
    return broken._replace(frame=write(edit, layout, {"header": {"correlation_id": 1}, "body": body}))


def metadata(topics: int, partitions: int, edit: Edit) -> Broken:
    """Return a Metadata v5 response with `topics` topics of `partitions` partitions each."""
    partition = {"leader_id": 1, "replica_nodes": [1, 2, 3], "isr_nodes": [1, 2, 3]}
    topic_partitions = [partition | {"partition_index": index} for index in range(partitions)]
    body = {
        "brokers": [{"node_id": node, "host": f"broker-{node}", "port": 9092} for node in (1, 2, 3)],
        "topics": [{"name": f"topic-{index}", "partitions": topic_partitions} for index in range(topics)],
    }
    return _write_broken("Metadata", 5, body, edit)


def metadata_with_a_misplaced_throttle() -> Broken:
    """Return a response with its throttle time last: nearly every topic is read before anything looks wrong."""
    return metadata(1_700, 12, Edit.of("field_moved", "throttle_time_ms", from_=0, to=4))


def _fetch_body() -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "high_watermark": 900, "last_stable_offset": 900, "log_start_offset": 0,
         "aborted_transactions": None, "records": Random(index).randbytes(8_000)}
        for index in range(13)
    ]  # fmt: skip
    return {"responses": [{"topic": f"topic-{index}", "partitions": partitions} for index in range(10)]}


def fetch_without_flexibility() -> Broken:
    """Return a response of version 12 written like version 11."""
    return _write_broken("Fetch", 12, _fetch_body(), Edit.of("flexibility", "*", written="fixed"))


def fetch_with_flexibility() -> Broken:
    """Return a response of version 11 written like version 12."""
    return _write_broken("Fetch", 11, _fetch_body(), Edit.of("flexibility", "*", written="compact"))


def produce_without_throttle() -> Broken:
    """Return a response of very many small structs without their last field."""
    partitions = [{"index": index, "base_offset": index} for index in range(200)]
    topics = [{"name": f"topic-{index}", "partition_responses": partitions} for index in range(230)]
    field = "responses[].partition_responses[].log_start_offset"
    return _write_broken("Produce", 5, {"responses": topics}, Edit.of("field_missing", field, where=4))


def zeros() -> Broken:
    """Return a frame of nothing but zeros."""
    return _broken_frame("Metadata", 12, with_length_prefix(bytes(MIB)))


def noise() -> Broken:
    """Return a frame of random bytes."""
    return _broken_frame("Metadata", 5, with_length_prefix(Random(1).randbytes(MIB)))


def smallest_elements() -> Broken:
    """Return a frame with one element per byte, followed by a wrong byte."""
    return _broken_frame(
        "Metadata", 12, with_length_prefix(bytes(5) + b"\x01" * 9 + MIB.to_bytes(3, "big") + b"\x01" * MIB)
    )


#: Functions that build frames of about 1 MiB.
LARGE: dict[str, Callable[[], Broken]] = {
    builder.__name__: builder
    for builder in (
        metadata_with_a_misplaced_throttle, fetch_without_flexibility, fetch_with_flexibility, produce_without_throttle,
        zeros, noise, smallest_elements,
    )
}  # fmt: skip

_INSERTIONS = (b"", b"\x00", b"\xff", b"\x02", b"\xc3", b"\x80\x00", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff",
               b"\x00\x00\x00\x00", b"\xff\xff\xff\xff\x0f")  # fmt: skip


class Mutations:
    """A source of small broken frames, written under edits and then damaged; the same seed gives the same frames."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.realistic = Realistic(seed)

    def exchange(self) -> tuple[bytes, Broken]:
        """Return a correct request, and either a broken request of its API version or a broken response to it."""
        key, version = self.random.choice(API_VERSIONS)
        request_to_break = Broken(
            with_length_prefix(key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(6)), key, version, True
        )
        request = self._write_frame(request_to_break, None)
        broken = request_to_break if self.random.random() < 0.4 else Broken(with_length_prefix(bytes(8)), key, version)
        return request, broken._replace(frame=self._damage(self._write_frame(broken, self._pick_edit(broken))))

    def _write_frame(self, broken: Broken, edit: Edit | None) -> bytes:
        layout = right_layout(broken.message)
        assert layout is not None
        values = self.realistic.values(layout)
        values["header"] |= {"correlation_id": 1}
        if broken.is_request:
            values["header"] |= {"request_api_key": broken.key, "request_api_version": broken.version}
        try:
            return write(edit, layout, values)
        except EncodeError:  # e.g. an id that an int8 cannot hold
            return write(None, layout, values)

    def _pick_edit(self, broken: Broken) -> Edit | None:
        layout: Layout | None = right_layout(broken.message)
        assert layout is not None
        if self.random.random() < 0.3:
            return None
        first = self.random.choice(single_edits(layout, broken.version))
        if self.random.random() < 0.8:
            return first.edit
        return first.edit.followed_by(self.random.choice(single_edits(first.layout, broken.version)).edit)

    def _damage(self, frame: bytes) -> bytes:
        random, data = self.random, frame[4:]
        for _ in range(random.choice((0, 0, 1, 1, 2, 4))):
            pos = random.randint(0, len(data))
            dropped = random.choice((0, 1, 1, 2, 4, 8, len(data)))
            inserted = (
                random.choice(_INSERTIONS) if random.random() < 0.6 else random.randbytes(random.choice((1, 1, 2, 4)))
            )
            data = data[:pos] + inserted + data[pos + dropped :]
        return with_length_prefix(data)
