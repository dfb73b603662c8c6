"""Compare kproxy's decoder with those of Python clients, on message bodies from captures of real clients and brokers.

Libraries that are not installed are left out, as are messages that a library does not know.

python benchmarks/decode.py
"""

from __future__ import annotations

import base64
import functools
import importlib
import io
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from dissectors.messages.message import api_layouts, read_request, read_response
from dissectors.wire.decode import decode
from kproxy.trace.lines import Detail, RequestLine, ResponseLine
from tests.kproxy.capture_results import DATA, lines_of

#: API key, version, and whether it is a request.
Kind = tuple[int, int, bool]
#: A function with which a library reads a body; any exception means that it cannot.
Reader = Callable[[bytes], Any]
_ROUNDS = 5


def bodies() -> dict[Kind, list[bytes]]:
    """Return the messages in all captures of real clients, without headers, by kind."""
    bodies: dict[Kind, list[bytes]] = {}
    for path in sorted((DATA / "pcap").glob("*.pcap.gz")):
        for line in lines_of(path, detail=Detail.RAW):
            if not isinstance(line, RequestLine | ResponseLine) or not line.frame:
                continue
            assert line.api_key is not None
            assert line.api_version is not None
            frame = base64.b64decode(line.frame)
            is_request = isinstance(line, RequestLine)
            message = read_request(frame) if is_request else read_response(frame, line.api_key, line.api_version)
            if message.layout is not None and message.error is None and message.version == line.api_version:
                bodies.setdefault((line.api_key, line.api_version, is_request), []).append(frame[message.body_start :])
    return bodies


def kproxy(kind: Kind) -> Reader:
    """Return the reader of the proxy, `dissect` and the built-in broker."""
    key, version, is_request = kind
    layouts = api_layouts(key, version)
    assert layouts is not None
    return functools.partial(decode, layouts.request if is_request else layouts.response)


def kio(kind: Kind) -> Reader:
    """Return the reader of a library for the protocol alone, which is compiled to machine code."""
    from kio.index import load_request_schema, load_response_schema
    from kio.serial import entity_reader

    key, version, is_request = kind
    reader = entity_reader((load_request_schema if is_request else load_response_schema)(key, version))
    return lambda body: reader(body, 0)


def kafka_python(kind: Kind) -> Reader:
    """Return the reader of a client that generates Python from Kafka's schemas, as kproxy does."""
    from kafka.protocol.api_message import ApiMessage

    for family in ("admin", "consumer", "metadata", "producer", "sasl"):
        importlib.import_module(f"kafka.protocol.{family}")
    key, version, is_request = kind
    [subclass] = [
        subclass
        for subclass in ApiMessage.__subclasses__()
        if key == subclass.API_KEY and subclass.is_request() is is_request
    ]
    return functools.partial(subclass.decode, version=version)


def aiokafka(kind: Kind) -> Reader:
    """Return the reader of a client with a handwritten class for each message and version."""
    from aiokafka.protocol.api import RequestStruct, Response

    for module_name in (
        "admin",
        "commit",
        "coordination",
        "fetch",
        "group",
        "metadata",
        "offset",
        "produce",
        "transaction",
    ):
        importlib.import_module(f"aiokafka.protocol.{module_name}")
    key, version, is_request = kind
    base = RequestStruct if is_request else Response
    [subclass] = [
        subclass for subclass in base.__subclasses__() if (key, version) == (subclass.API_KEY, subclass.API_VERSION)
    ]
    return lambda body: subclass.decode(io.BytesIO(body))


def build_readers(library: Callable[[Kind], Reader], messages: dict[Kind, list[bytes]]) -> dict[Kind, Reader]:
    """Return a library's readers, for those kinds for which it can read all messages."""
    readers: dict[Kind, Reader] = {}
    for kind, bodies_of_kind in messages.items():
        with suppress(Exception):
            reader = library(kind)
            for body in bodies_of_kind:
                reader(body)
            readers[kind] = reader
    return readers


def cpu_seconds(calls: list[tuple[Reader, bytes]]) -> float:
    """Return the CPU time for reading each message once."""
    started = time.process_time()
    for reader, body in calls:
        reader(body)
    return time.process_time() - started


def main() -> None:
    """Measure each library five times in turns with kproxy, on messages that both can read; compare the best times."""
    messages = bodies()
    kproxy_readers = build_readers(kproxy, messages)
    print(f"{sum(map(len, messages.values()))} messages of {len(kproxy_readers)} kinds")
    for library in (kafka_python, aiokafka, kio):
        library_readers = build_readers(library, messages)
        if not library_readers:
            print(f"{library.__name__}: not installed")
            continue
        calls = {
            name: [(readers[kind], body) for kind in library_readers for body in messages[kind]]
            for name, readers in (("kproxy", kproxy_readers), (library.__name__, library_readers))
        }
        best = dict.fromkeys(calls, float("inf"))
        for _ in range(_ROUNDS):
            for name, library_calls in calls.items():
                best[name] = min(best[name], cpu_seconds(library_calls))
        count = len(calls["kproxy"])
        times = ", ".join(f"{name} {1e6 * seconds / count:.2f} us" for name, seconds in best.items())
        print(f"{count} of them: {times} a message; ratio {best[library.__name__] / best['kproxy']:.1f}")


if __name__ == "__main__":
    main()
