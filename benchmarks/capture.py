"""Write a capture of many small Kafka exchanges, and measure the time to reassemble its packets into TCP bytes.

python benchmarks/capture.py [EXCHANGES]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

import google_crc32c

from kproxy.capture import BytesCaptured, Reassembler, open_capture

_FILE_HEAD = Struct("<IHHiIII")
_PACKET_HEAD = Struct("<IIII")
_HEADERS = Struct("!14s BBHIBBH4s4s HHIIBBHI")
_SYN, _SYN_ACK, _ACK, _PUSH_ACK = 0x02, 0x12, 0x10, 0x18
_START_S = 1_750_000_000
_MICROSECONDS_APART = 50
_CONNECTIONS = 16

_CLIENT_ID = b"\0\x0aconsumer-1"
_GROUP = b"\x09payments"
_MEMBER = b"\x30consumer-1-0b39b1a8-34de-47c2-9b5c-7f6a1b1e4d20"
_TOPIC = b"\x07orders"

#: API key and version, the body of the request, and the response after its correlation id.
Exchange = tuple[bytes, bytes, bytes]


@dataclass(slots=True)
class _Side:
    """An endpoint of a simulated connection."""

    address: bytes
    port: int
    sequence: int


def make_small_frames(path: Path, exchanges: int = 100_000) -> int:
    """Write a pcap of `exchanges` requests and responses in one packet each; a third packet acknowledges each pair.

    Sixteen connections take turns to send Heartbeat v4, Produce v9 with one small record, and Fetch v12 that finds
    nothing. Return the number of packets.
    """
    packets = 0
    with path.open("wb") as file:
        file.write(_FILE_HEAD.pack(0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        for packet in _packets(exchanges):
            seconds, micros = divmod(packets * _MICROSECONDS_APART, 1_000_000)
            file.write(_PACKET_HEAD.pack(_START_S + seconds, micros, len(packet), len(packet)) + packet)
            packets += 1
    return packets


def _packets(exchanges: int) -> Iterator[bytes]:
    pairs = [
        (_Side(b"\x0a\0\0\x02", 40_000 + n, 1_000 * n), _Side(b"\x0a\0\0\x01", 9092, n << 28))
        for n in range(_CONNECTIONS)
    ]
    for client, broker in pairs:
        yield _packet(client, broker, _SYN)
        yield _packet(broker, client, _SYN_ACK)
        yield _packet(client, broker, _ACK)
    kinds: tuple[Callable[[int], Exchange], ...] = (_heartbeat, _produce, _fetch)
    for number in range(exchanges):
        client, broker = pairs[number % _CONNECTIONS]
        turn = number // _CONNECTIONS
        head, request, response = kinds[turn % len(kinds)](turn)
        correlation_id = turn.to_bytes(4, "big")
        yield _packet(client, broker, _PUSH_ACK, _frame(head + correlation_id + _CLIENT_ID + b"\0" + request))
        yield _packet(broker, client, _PUSH_ACK, _frame(correlation_id + response))
        yield _packet(client, broker, _ACK)


def _packet(sender: _Side, receiver: _Side, flags: int, payload: bytes = b"") -> bytes:
    headers = _HEADERS.pack(
        b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0",
        *(0x45, 0, 40 + len(payload), 0x4000, 64, 6, 0, sender.address, receiver.address),
        *(sender.port, receiver.port, sender.sequence & 0xFFFF_FFFF, receiver.sequence & 0xFFFF_FFFF),
        *(0x50, flags, 512, 0),
    )
    sender.sequence += len(payload) + (flags & 1 or flags >> 1 & 1)
    return headers + payload


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _heartbeat(_: int) -> Exchange:
    generation, no_instance_id, tags = b"\0\0\0\x05", b"\0", b"\0"
    return b"\0\x0c\0\x04", _GROUP + generation + _MEMBER + no_instance_id + tags, bytes(1 + 4 + 2 + 1)


def _produce(turn: int) -> Exchange:
    batch = _record_batch(turn)
    partition = bytes(4) + bytes((len(batch) + 1,)) + batch + b"\0"
    no_transaction, all_replicas, timeout = b"\0", b"\xff\xff", b"\0\0\x75\x30"
    request = no_transaction + all_replicas + timeout + b"\x02" + _TOPIC + b"\x02" + partition + b"\0\0"
    index_and_error, no_append_time, log_start, no_errors = bytes(6), b"\xff" * 8, bytes(8), b"\x01\0\0"
    answer = index_and_error + turn.to_bytes(8, "big") + no_append_time + log_start + no_errors
    return b"\0\0\0\x09", request, b"\0\x02" + _TOPIC + b"\x02" + answer + b"\0" + bytes(4) + b"\0"


def _record_batch(turn: int) -> bytes:
    timestamp = (_START_S * 1000 + turn).to_bytes(8, "big")
    record = b"\0\0\0\x06k-1\x12" + b'{"id":17}' + b"\0"
    no_producer = b"\xff" * (8 + 2 + 4)
    covered = bytes(2 + 4) + timestamp * 2 + no_producer + b"\0\0\0\x01" + bytes((len(record) * 2,)) + record
    checksum: int = google_crc32c.value(covered)
    head = b"\0\0\0\0\x02" + checksum.to_bytes(4, "big")  # leader epoch, magic
    return bytes(8) + (len(head) + len(covered)).to_bytes(4, "big") + head + covered


def _fetch(turn: int) -> Exchange:
    replica_wait_and_sizes = b"\xff\xff\xff\xff" + b"\0\0\x01\xf4" + b"\0\0\0\x01" + b"\x03\x20\0\0" + b"\0"
    session = b"\x4a\x1f\x22\x07"
    no_topics, nothing_forgotten, no_rack = b"\x01", b"\x01", b"\x01"
    request = replica_wait_and_sizes + session + turn.to_bytes(4, "big") + no_topics + nothing_forgotten + no_rack
    return b"\0\x01\0\x0c", request + b"\0", b"\0" + bytes(4 + 2) + session + b"\x01\0"


def main() -> None:
    exchanges = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "small-frames.pcap")
        packets = make_small_frames(path, exchanges)
        with open_capture(path) as capture:
            started, payload, reassembler = time.process_time(), 0, Reassembler()
            for packet in capture:
                for event in reassembler.receive(packet):
                    if isinstance(event, BytesCaptured):
                        payload += len(event.data)
            seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{packets:,} packets, {payload:,} bytes of TCP payload: {seconds:.2f} s CPU, peak {peak:.0f} MiB")
    print(f"{seconds / packets * 1e6:.2f} µs a packet")


if __name__ == "__main__":
    main()
