"""What the user gives, and which source that is."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kproxy.browse.sources.capture_child import DissectedSource
from kproxy.browse.sources.factory import open_source
from kproxy.browse.sources.files import TraceSource
from kproxy.browse.sources.proxy import ProxySource
from kproxy.browse.sources.source import SeveralSources, Source
from kproxy.control.paths import own_path
from kproxy.errors import UserError
from tests.kproxy.browse.lines import line
from tests.kproxy.control.test_paths import greeting

CAPTURES = Path(__file__).parents[4] / "captures"
CAPTURE = CAPTURES / "metadata-retry-loop.pcap.gz"
KEEP = 1 << 30


def opened(*names: object) -> Source:
    return open_source([str(name) for name in names], ["--port=9092"], keep=KEEP)


def refusal(*names: object) -> str:
    with pytest.raises(UserError) as raised:
        opened(*names).close()
    return str(raised.value)


@contextmanager
def closed(source: Source, kind: type[Source]) -> Iterator[Any]:
    try:
        assert isinstance(source, kind)
        yield source
    finally:
        source.close()


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    trace, capture = tmp_path / "a.pcap", tmp_path / "b.jsonl"
    shutil.copy(CAPTURES / "trace-1.jsonl", trace)
    shutil.copy(CAPTURE, capture)
    with closed(opened(trace), TraceSource) as source:
        assert source.name == "a.pcap"
    with closed(opened(capture), DissectedSource) as source:
        assert (source.name, source._arguments) == ("b.jsonl", ["--port=9092", "--", str(capture)])
    with closed(opened(trace, trace), TraceSource) as source:
        assert source.name == "2 files"
    with closed(opened(trace, capture), DissectedSource) as source:
        assert source._arguments == ["--port=9092", "--", str(trace), str(capture)]


def test_a_trace_that_has_just_begun_is_one(tmp_path: Path) -> None:
    path = tmp_path / ".kproxy-web-1-1.jsonl.zst.part"
    path.touch()
    opened(path).close()
    path = tmp_path / ".kproxy-web-1-1.jsonl.part"
    path.write_bytes(line(1)[:10])
    opened(path).close()


def test_a_directory_needs_a_trace_or_a_capture(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: no trace (*.jsonl) and no capture (*.pcap, *.pcapng) in this directory"
    (tmp_path / "date=2026-11-21" / "hour=01").mkdir(parents=True)
    (tmp_path / "date=2026-11-21" / "hour=01" / "kproxy-web-1-1.jsonl").write_bytes(line(1))
    with closed(opened(tmp_path), TraceSource) as source:
        assert source.name == tmp_path.name
    shutil.copy(CAPTURE, tmp_path / "day.pcap12")
    with closed(opened(tmp_path), DissectedSource) as source:
        assert source._arguments == ["--port=9092", "--", str(tmp_path)]


def test_what_cannot_be_looked_at_is_one_sentence(tmp_path: Path) -> None:
    text, newer, json = tmp_path / "README", tmp_path / "newer.jsonl", tmp_path / "other.jsonl"
    text.write_text("just words")
    newer.write_text('{"kind":"open","v":9}\n')
    json.write_text('{"a":1}\n')
    assert "not a capture file" in refusal(text)
    assert "trace format 9" in refusal(newer)
    assert "is not a kproxy trace" in refusal(json)
    assert "No such file" in refusal(tmp_path / "none.pcap")
    assert "No such file" in refusal(CAPTURE, tmp_path / "none.pcap")
    assert "cannot be combined" in refusal(CAPTURE, "-")
    (tmp_path / "empty.pcap").touch()
    assert "is empty" in refusal(tmp_path / "empty.pcap")


def test_a_pipe_is_read_by_the_child(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with closed(opened(f"/dev/fd/{reading}"), DissectedSource) as source:
        assert source._arguments == ["-", "--port=9092"]
        assert source.live
        os.close(source._stdin)
    os.close(reading)
    os.close(writing)


def test_the_proxy_that_listens_there(sockets: Path) -> None:
    with greeting(own_path(7), "127.0.0.1:9092"), greeting(own_path(8), "127.0.0.1:9093"):
        for address, number in (("9092", 7), ("127.0.0.1:9093", 8), ("localhost:9093", 8)):
            with closed(opened(address), ProxySource) as source:
                assert source._locate() == sockets / f"{number}.sock"
        assert "no kproxy listens on 9094; found 127.0.0.1:9092 -> " in refusal(9094)
        several = refusal()
        assert "several proxies are running: 127.0.0.1:9092 -> b:1 (pid" in several
        assert "127.0.0.1:9093" in several
    assert "this user runs no kproxy on this machine" in refusal("unix:/nowhere")


def test_the_only_proxy_is_meant_when_nothing_is_given(sockets: Path) -> None:
    assert "this user runs no kproxy on this machine" in refusal()
    with greeting(own_path(7), "127.0.0.1:9092"), closed(opened(), ProxySource) as source:
        assert source._locate() == sockets / "7.sock"


def test_a_control_socket_elsewhere(sockets: Path) -> None:
    path = sockets.parent / "mine"
    with greeting(path, "127.0.0.1:9092"):
        for name in (path, f"unix:{path}"):
            with closed(opened(name), ProxySource) as source:
                assert source._locate() == path
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(sockets.parent / "deaf"))
        assert "no running kproxy has its control socket there" in refusal(sockets.parent / "deaf")


def test_a_socket_that_a_proxy_listens_on(sockets: Path) -> None:
    listener = sockets.parent / "kafka"
    with greeting(own_path(7), f"unix:{listener}"), socket.socket(socket.AF_UNIX) as taken:
        taken.bind(str(listener))
        for name in (listener, f"unix:{listener}"):
            with closed(opened(name), ProxySource) as source:
                assert source._locate() == sockets / "7.sock"


def test_a_file_is_no_address_whatever_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("9092").write_bytes(line(1))
    opened("9092").close()


def test_several_proxies_are_choices_each_with_a_name_of_its_own(sockets: Path) -> None:
    first, second, third = own_path(7), own_path(8), own_path(9)
    with (
        greeting(first, "127.0.0.1:9092", pid=7),
        greeting(second, "127.0.0.1:9093", pid=8, built_in=True),
        greeting(third, "0.0.0.0:9093", pid=9),
    ):
        with pytest.raises(SeveralSources) as raised:
            opened()
        assert raised.value.choices == [
            ("127.0.0.1:9092", "127.0.0.1:9092 -> b:1 (pid 7)"),
            (str(second), "127.0.0.1:9093 -> built-in Kafka (pid 8)"),
            ("0.0.0.0:9093", "0.0.0.0:9093 -> b:1 (pid 9)"),
        ]
        for name, _ in raised.value.choices:
            opened(name).close()
