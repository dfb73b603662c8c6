"""A running proxy decodes records. A registry that hangs delays neither traffic nor lines."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from dissectors.records import encode
from kproxy.cli import payload_options
from kproxy.proxy.address import TcpAddress
from kproxy.trace.reader import trace_files
from tests.kproxy.cli.conftest import Run
from tests.kproxy.cli.test_relay import Broker, read_trace, running, until
from tests.kproxy.control.raw import RawViewer
from tests.kproxy.frames import request, response
from tests.serialized import ORDER, ORDER_SCHEMA

ANSWER = response("Produce", 9, {"responses": []}, correlation_id=7)


@pytest.fixture
def registry() -> Iterator[str]:
    """The URL of a registry that knows schema 2; requests for other schemas hang."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            responses = {"/schemas/ids/2": {"schema": ORDER_SCHEMA}, "/schemas/ids/2/subjects": ["orders-value"]}
            if self.path not in responses:
                ended.wait()
            body = json.dumps(responses.get(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the client gave up
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        ended.set()
        server.shutdown()
        thread.join()


def produce(topic: str, value: bytes) -> bytes:
    partition = {"index": 0, "records": encode([{"records": [{"value": value}]}])}
    body = {"acks": 1, "timeout_ms": 100, "topic_data": [{"name": topic, "partition_data": [partition]}]}
    return request("Produce", 9, body, correlation_id=7)


def record_values(lines: list[dict[str, Any]]) -> list[Any]:
    bodies: list[Any] = [line["body"] for line in lines if line["kind"] == "request"]
    return [body["topic_data"][0]["partition_data"][0]["records"][0]["records"][0]["value"] for body in bodies]


@pytest.mark.slow
def test_hanging_registry_delays_neither_traffic_nor_decoding(tmp_path: Path, registry: str) -> None:
    broker, trace = Broker(ANSWER), tmp_path / "kproxy-trace"
    control = tmp_path / "control.sock"
    options = (
        "--payloads",
        "--registry",
        registry,
        "--mask",
        "cards:value",
        "--control",
        str(control),
        "-q",
        "--http",
        "127.0.0.1:0",
    )
    hanging_frames = [
        produce("orders", ORDER[:3] + number.to_bytes(2, "big") + ORDER[5:]) for number in range(300, 400)
    ]

    def is_decoded() -> bool:
        exchange(produce("orders", ORDER))
        return any("problem" not in value for value in record_values(read_trace(trace)))

    try:
        with running(tmp_path, "--upstream", f"127.0.0.1:{broker.port}", *options) as proxy:
            with proxy.connect() as client, client.makefile("rb") as received:

                def exchange(frame: bytes) -> None:
                    client.sendall(frame)
                    assert received.read(len(ANSWER)) == ANSWER

                until(is_decoded)
                proxy.wait_for_message("health and metrics on http://")
                [address] = re.findall(r"health and metrics on (http://\S+)", "".join(proxy.printed))
                with RawViewer(control) as viewer:
                    assert viewer.read_line()["payloads"]
                    viewer.request(do="watch", payloads=True, frames=True)
                    exchange(produce("cards", b"planted"))
                    watched = next(line for line in iter(viewer.read_line, {}) if "cards" in str(line))
                    control_output = json.dumps(viewer.request(do="connections"))
                    viewer.send(do="watch", backlog=True, payloads=True, frames=True)
                    control_output += str(viewer.read_line())
                    control_output += str(next(line for line in iter(viewer.read_line, {}) if "cards" in str(line)))

                def scrape() -> str:
                    return "".join(urlopen(f"{address}/{path}").read().decode() for path in ("metrics", "healthz"))

                until(lambda: "kproxy_frames_total" in scrape())  # the inspector's figures are up to 2 s old
                control_output += scrape()
                for frame in hanging_frames:
                    exchange(frame)
            until(lambda: [line for line in read_trace(trace) if line["kind"] == "close"])
            out, _ = proxy.end()
    finally:
        broker.stop()
    lines = read_trace(trace)
    assert {line["kind"] for line in lines} == {"open", "request", "response", "close"}  # no gap
    *_, decoded, masked = record_values(lines)[: -len(hanging_frames)]
    assert record_values([watched]) == [masked]
    assert "frame" not in watched
    assert (decoded["data"], decoded["subject"]) == ({"id": 17, "note": "hi", "tags": ["a", "b"]}, "orders-value")
    assert masked["data"] == "(masked)"
    assert {value["problem"] for value in record_values(lines)[-len(hanging_frames) :]} == {
        "its schema is not fetched yet"
    }
    assert b"planted" not in (out + control_output + "".join(proxy.printed)).encode() + b"".join(
        file.read_bytes() for file in trace_files(trace)
    )


def test_mask_rejects_detail_raw(kproxy: Run) -> None:
    result = kproxy("--listen", "127.0.0.1:0", "--upstream", "--payloads", "--mask", "value", "--detail", "raw")
    assert result.stderr == "kproxy: --mask cannot mask the bytes of frames: do not pass --detail raw with it\n"


@pytest.mark.parametrize(
    ("listen", "options", "url"),
    [
        (("", 8081), {}, "http://localhost:8081"), (("0.0.0.0", 8081), {}, "http://localhost:8081"),
        (("::1", 8081), {}, "http://[::1]:8081"), (("", 0), {}, None), (("", 8081), {"payloads": False}, None),
        (("", 8081), {"registry": "http://other:1"}, "http://other:1"),
    ],
)  # fmt: skip
def test_uses_the_registry_of_the_built_in_broker(
    listen: tuple[str, int], options: dict[str, Any], url: str | None
) -> None:
    args = argparse.Namespace(**{"payloads": True, "registry": None} | options)
    payload_options.use_own_registry(args, TcpAddress(*listen))
    assert args.registry == url
