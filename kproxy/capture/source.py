"""Opens captures: files or streams, optionally compressed with gzip or zstd."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from kproxy.capture.containers import read_packets
from kproxy.capture.packet import CaptureError, CaptureNotes, Packet, PacketBlock
from kproxy.io.compression import DAMAGE, Compressed, open_compressed

_CHUNK = 1 << 16
_HEADER_SIZE = 24  # the size of a pcap header, so that the first read returns the whole header


class Capture:
    """Iterates once over the packets of a capture, in file order, in constant memory.

    Close it, or use it as a context manager. Closing closes a file that `open_capture` opened, but not a stream.

    `advance` is called for each chunk that is read or decompressed, to show progress even if it yields no packet.
    """

    def __init__(
        self, source: BinaryIO, name: str, *, owned: bool, advance: Callable[[], object] = lambda: None
    ) -> None:
        self.name = name
        self._source = source if owned else None
        self._raw = _RawReader(source, advance)
        self._notes = CaptureNotes()
        file: io.BufferedReader[Any] = io.BufferedReader(self._raw, _CHUNK)
        if compressed := open_compressed(file, file.peek(4)):
            file = io.BufferedReader(_DecompressingReader(compressed, self._notes, advance), _CHUNK)
        self._blocks = read_packets(file, name, self._notes)

    @property
    def truncated(self) -> str | None:
        """The reason why not everything could be read, as a phrase. Known after the iteration."""
        return self._notes.damage

    @property
    def tls_keys(self) -> str:
        """The TLS key logs (NSS format) of a pcapng file, up to the packet that was read last."""
        return self._notes.tls_keys

    @property
    def bytes_read(self) -> int:
        """The number of bytes read from the file (before decompression), for a progress bar."""
        return self._raw.bytes_read

    def __iter__(self) -> Iterator[Packet]:
        for link_type, data, packets in self._blocks:
            for at, start, end, wire_length in packets:
                yield Packet(at, link_type, data[start:end], wire_length)

    def blocks(self) -> Iterator[PacketBlock]:
        """Return the packets in blocks that were read together, which is less work than one by one."""
        return self._blocks

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


def open_capture(source: Path | BinaryIO) -> Capture:
    """Open a pcap (µs or ns, either byte order) or pcapng capture; gzip and zstd are detected by their first bytes.

    A stream need not be seekable: `sys.stdin.buffer` works.

    Raises:
        CaptureError: The capture cannot be opened, is empty, has another format, or an unsupported link type. The
            last is also raised while iterating, because a pcapng file may have link types anywhere. A capture that is
            truncated or damaged later raises nothing: the iteration ends, and `truncated` has the reason.
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


class _RawReader(io.RawIOBase):
    """Counts the bytes read from a stream, and returns available bytes instead of waiting for a full buffer."""

    def __init__(self, source: BinaryIO, advance: Callable[[], object]) -> None:
        self._advance = advance
        self._read = source.read
        self._read_some = getattr(source, "read1", source.read)
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._read_some(len(buffer)) if self.bytes_read else self._read(_HEADER_SIZE)
        self.bytes_read += len(data)
        self._advance()
        buffer[: len(data)] = data
        return len(data)


class _DecompressingReader(io.RawIOBase):
    """Decompresses; ends at damaged data and notes the reason."""

    def __init__(self, compressed: Compressed, notes: CaptureNotes, advance: Callable[[], object]) -> None:
        self._advance = advance
        self._kind, self._file = compressed
        self._notes = notes
        self._started = self._is_damaged = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._is_damaged:
            return 0
        try:
            data = self._file.read1(len(buffer)) if self._started else self._file.read(_HEADER_SIZE)
        except EOFError:
            self._notes.damage = f"the {self._kind} data is truncated"
            self._is_damaged = True
            return 0
        except DAMAGE as error:
            self._notes.damage = f"the {self._kind} data is damaged ({error})"
            self._is_damaged = True
            return 0
        self._started = True
        self._advance()
        buffer[: len(data)] = data
        return len(data)
