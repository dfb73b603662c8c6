"""Command-line arguments open the right kind of source."""

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
from kproxy.browse.sources.source import AmbiguousSourceError, Source
from kproxy.control.paths import control_socket_path
from kproxy.errors import UserError
from tests.kproxy.browse.lines import line
from tests.kproxy.control.test_paths import greeting

CAPTURES = Path(__file__).parents[4] / "captures"
CAPTURE = CAPTURES / "metadata-retry-loop.pcap.gz"
KEEP = 1 << 30


def open_names(*names: object) -> Source:
    return open_source([str(name) for name in names], ["--port=9092"], keep=KEEP)


def error_message(*names: object) -> str:
    with pytest.raises(UserError) as raised:
        open_names(*names).close()
    return str(raised.value)


@contextmanager
def source_of_kind(source: Source, kind: type[Source]) -> Iterator[Any]:
    try:
        assert isinstance(source, kind)
        yield source
    finally:
        source.close()


def test_file_content_and_not_the_name_decides_the_source(tmp_path: Path) -> None:
    trace, capture = tmp_path / "a.pcap", tmp_path / "b.jsonl"
    shutil.copy(CAPTURES / "trace-1.jsonl", trace)
    shutil.copy(CAPTURE, capture)
    with source_of_kind(open_names(trace), TraceSource) as source:
        assert source.name == "a.pcap"
    with source_of_kind(open_names(capture), DissectedSource) as source:
        assert (source.name, source._arguments) == ("b.jsonl", ["--port=9092", "--", str(capture)])
    with source_of_kind(open_names(trace, trace), TraceSource) as source:
        assert source.name == "2 files"
    with source_of_kind(open_names(trace, capture), DissectedSource) as source:
        assert source._arguments == ["--port=9092", "--", str(trace), str(capture)]


def test_empty_or_incomplete_new_trace_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / ".kproxy-web-1-1.jsonl.zst.part"
    path.touch()
    open_names(path).close()
    path = tmp_path / ".kproxy-web-1-1.jsonl.part"
    path.write_bytes(line(1)[:10])
    open_names(path).close()


def test_directory_must_contain_a_trace_or_a_capture(tmp_path: Path) -> None:
    assert (
        error_message(tmp_path) == f"{tmp_path}: no trace (*.jsonl) and no capture (*.pcap, *.pcapng) in this directory"
    )
    (tmp_path / "date=2026-11-21" / "hour=01").mkdir(parents=True)
    (tmp_path / "date=2026-11-21" / "hour=01" / "kproxy-web-1-1.jsonl").write_bytes(line(1))
    with source_of_kind(open_names(tmp_path), TraceSource) as source:
        assert source.name == tmp_path.name
    shutil.copy(CAPTURE, tmp_path / "day.pcap12")
    with source_of_kind(open_names(tmp_path), DissectedSource) as source:
        assert source._arguments == ["--port=9092", "--", str(tmp_path)]


def test_unreadable_input_is_rejected_with_one_sentence(tmp_path: Path) -> None:
    text_file, newer_trace, json_file = tmp_path / "README", tmp_path / "newer.jsonl", tmp_path / "other.jsonl"
    text_file.write_text("just words")
    newer_trace.write_text('{"kind":"open","v":9}\n')
    json_file.write_text('{"a":1}\n')
    assert "not a capture file" in error_message(text_file)
    assert "trace format 9" in error_message(newer_trace)
    assert "is not a kproxy trace" in error_message(json_file)
    assert "No such file" in error_message(tmp_path / "none.pcap")
    assert "No such file" in error_message(CAPTURE, tmp_path / "none.pcap")
    assert "cannot be combined" in error_message(CAPTURE, "-")
    (tmp_path / "empty.pcap").touch()
    assert "is empty" in error_message(tmp_path / "empty.pcap")


def test_pipe_is_read_by_the_child(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    with source_of_kind(open_names(f"/dev/fd/{read_end}"), DissectedSource) as source:
        assert source._arguments == ["-", "--port=9092"]
        assert source.live
        os.close(source._stdin)
    os.close(read_end)
    os.close(write_end)


def test_address_selects_the_proxy_that_listens_there(sockets: Path) -> None:
    with greeting(control_socket_path(7), "127.0.0.1:9092"), greeting(control_socket_path(8), "127.0.0.1:9093"):
        for address, pid in (("9092", 7), ("127.0.0.1:9093", 8), ("localhost:9093", 8)):
            with source_of_kind(open_names(address), ProxySource) as source:
                assert source._locate() == sockets / f"{pid}.sock"
        assert "no kproxy listens on 9094; found 127.0.0.1:9092 -> " in error_message(9094)
        message = error_message()
        assert "several proxies are running: 127.0.0.1:9092 -> b:1 (pid" in message
        assert "127.0.0.1:9093" in message
    assert "this user runs no kproxy on this machine" in error_message("unix:/nowhere")


def test_only_running_proxy_is_opened_if_no_name_is_given(sockets: Path) -> None:
    assert "this user runs no kproxy on this machine" in error_message()
    with greeting(control_socket_path(7), "127.0.0.1:9092"), source_of_kind(open_names(), ProxySource) as source:
        assert source._locate() == sockets / "7.sock"


def test_control_socket_in_another_directory_is_opened(sockets: Path) -> None:
    path = sockets.parent / "mine"
    with greeting(path, "127.0.0.1:9092"):
        for name in (path, f"unix:{path}"):
            with source_of_kind(open_names(name), ProxySource) as source:
                assert source._locate() == path
    with socket.socket(socket.AF_UNIX) as unused_socket:
        unused_socket.bind(str(sockets.parent / "deaf"))
        assert "no running kproxy has its control socket there" in error_message(sockets.parent / "deaf")


def test_path_of_a_unix_listener_selects_its_proxy(sockets: Path) -> None:
    listener = sockets.parent / "kafka"
    with greeting(control_socket_path(7), f"unix:{listener}"), socket.socket(socket.AF_UNIX) as listening_socket:
        listening_socket.bind(str(listener))
        for name in (listener, f"unix:{listener}"):
            with source_of_kind(open_names(name), ProxySource) as source:
                assert source._locate() == sockets / "7.sock"


def test_file_named_like_a_port_is_opened_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("9092").write_bytes(line(1))
    open_names("9092").close()


def test_several_proxies_are_offered_as_choices_with_distinct_names(sockets: Path) -> None:
    first, second, third = control_socket_path(7), control_socket_path(8), control_socket_path(9)
    with (
        greeting(first, "127.0.0.1:9092", pid=7),
        greeting(second, "127.0.0.1:9093", pid=8, built_in=True),
        greeting(third, "0.0.0.0:9093", pid=9),
    ):
        with pytest.raises(AmbiguousSourceError) as raised:
            open_names()
        assert raised.value.choices == [
            ("127.0.0.1:9092", "127.0.0.1:9092 -> b:1 (pid 7)"),
            (str(second), "127.0.0.1:9093 -> built-in Kafka (pid 8)"),
            ("0.0.0.0:9093", "0.0.0.0:9093 -> b:1 (pid 9)"),
        ]
        for name, _ in raised.value.choices:
            open_names(name).close()
