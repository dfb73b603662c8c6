"""Opens a capture: a file or a stream, compressed (gzip, zstd) or not."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from kproxy.capture.packet import CaptureError, CaptureNotes, Packet
from kproxy.io.compression import DAMAGE, Compressed, decompress

_CHUNK = 1 << 16
_HEAD = 24  # a whole pcap header, so that looking at the first bytes never sees too few of them


class Capture:
    """The packets of one capture, once, in the order of the file; memory does not grow with its length.

    Close it, or use it in a `with`. A file that was opened here is closed then, a stream that was handed in is not.
    """

    def __init__(self, source: BinaryIO, name: str, *, owned: bool) -> None:
        from kproxy.capture.containers import read_packets  # imports scapy

        self.name = name
        self._source = source if owned else None
        self._raw = _Raw(source)
        self._notes = CaptureNotes()
        file: io.BufferedReader[Any] = io.BufferedReader(self._raw, _CHUNK)
        if compressed := decompress(file, file.peek(4)):
            file = io.BufferedReader(_Decompressed(compressed, self._notes), _CHUNK)
        self._packets = read_packets(file, name, self._notes)

    @property
    def truncated(self) -> str | None:
        """Why not everything could be read, as a phrase; known once iteration has ended."""
        return self._notes.damage

    @property
    def tls_keys(self) -> str:
        """The TLS key logs (NSS format) of a pcapng, as far as it was read."""
        return self._notes.tls_keys

    @property
    def bytes_read(self) -> int:
        """Bytes taken of the file as it lies there (compressed, if it is), for a progress bar."""
        return self._raw.bytes_read

    def __iter__(self) -> Iterator[Packet]:
        return self._packets

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


def open_capture(source: Path | BinaryIO) -> Capture:
    """Open a pcap (µs or ns, either byte order) or pcapng capture; gzip and zstd are seen by their magic.

    A stream need not be seekable: `sys.stdin.buffer` will do.

    Raises:
        CaptureError: It cannot be opened, is empty, is no capture, or of a link type that is not supported. The
            last also while iterating, as a pcapng names its link types on the way. A capture that is cut short or
            damaged further on raises nothing: it ends, and `truncated` says why.
    """
    if not isinstance(source, Path):
        return Capture(source, str(getattr(source, "name", "the stream")), owned=False)
    try:
        opened = source.open("rb")
    except OSError as error:
        raise CaptureError(f"{source} cannot be opened: {error.strerror}") from error
    try:
        return Capture(opened, str(source), owned=True)
    except BaseException:
        opened.close()
        raise


class _Raw(io.RawIOBase):
    """Counts what is taken of a binary stream, and takes what is there rather than wait for a full buffer."""

    def __init__(self, source: BinaryIO) -> None:
        self._read = source.read
        self._read_some = getattr(source, "read1", source.read)
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._read_some(len(buffer)) if self.bytes_read else self._read(_HEAD)
        self.bytes_read += len(data)
        buffer[: len(data)] = data
        return len(data)


class _Decompressed(io.RawIOBase):
    """Ends where compressed data can no longer be read, and notes why."""

    def __init__(self, compressed: Compressed, notes: CaptureNotes) -> None:
        self._kind, self._file = compressed
        self._notes = notes
        self._begun = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._notes.damage is not None:
            return 0
        try:
            data = self._file.read1(len(buffer)) if self._begun else self._file.read(_HEAD)
        except EOFError:
            self._notes.damage = f"the {self._kind} data is cut short"
            return 0
        except DAMAGE as error:
            self._notes.damage = f"the {self._kind} data is damaged ({error})"
            return 0
        self._begun = True
        buffer[: len(data)] = data
        return len(data)
