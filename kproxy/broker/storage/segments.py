"""Segments: the files of one partition, in Kafka's on-disk format, which is also the wire format."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import google_crc32c

from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.formats import entries
from kproxy.broker.log.batch import StoredBatch, read_header
from kproxy.broker.storage.append_file import AppendOnlyFile
from kproxy.broker.storage.private import create_private, make_private

#: Bytes per file. Small files free disk space sooner when old batches are deleted.
SEGMENT_BYTES: Final = 16 << 20
_METADATA: Final = "partition.metadata"
_TOPIC_ID: Final = re.compile(r"^topic_id: ([\w-]{22})$", re.MULTILINE)
_LEVELS: Final = 3  # DIR/logs/TOPIC-INDEX


class Segments:
    """The batches of a partition in ``DIR/TOPIC-INDEX/``, in files named by their first offset, as in Kafka.

    Files with another topic id belong to a deleted topic, and are removed.

    Raises:
        OSError: Such files cannot be removed.
    """

    def __init__(self, directory: Path, topic_id: str) -> None:
        self.directory = directory
        self._files: list[AppendOnlyFile] = []
        self._base_offsets: list[int] = []  # the first offset in each file
        self._topic_id = topic_id
        metadata = directory / _METADATA
        stored_id = _TOPIC_ID.search(metadata.read_text("latin-1")) if metadata.exists() else None
        if stored_id is not None and stored_id[1] != topic_id:
            shutil.rmtree(directory)
        #: The directory is created with the first batch: a request can create 10,000 partitions, and most remain empty.
        self._is_created = stored_id is not None and stored_id[1] == topic_id
        if not self._is_created and directory.exists():  # the id was lost in a power failure; batches are valid
            self._create()

    def _create(self) -> None:
        make_private(self.directory.parent)
        make_private(self.directory)
        with create_private(self.directory / _METADATA) as file:
            file.write(f"version: 0\ntopic_id: {self._topic_id}\n".encode())
        self._is_created = True

    def load(self) -> Iterator[StoredBatch]:
        """Yield every complete batch, in order; remove everything from the first incomplete one on.

        Raises:
            OSError: A file cannot be read.
        """
        paths = sorted(path for path in self.directory.glob("*.log") if path.stem.isdecimal())
        next_offset = None
        for index, path in enumerate(paths):
            file = AppendOnlyFile(path, levels=_LEVELS)
            self._files.append(file)
            self._base_offsets.append(int(path.stem))
            data = path.read_bytes()
            valid_size = 0
            for batch in _complete_batches(data):
                if next_offset is not None and batch.base_offset < next_offset:
                    break
                next_offset = batch.last_offset + 1
                valid_size += len(batch.data)
                yield batch
            if valid_size < len(data):
                file.truncate(valid_size)
                for later_path in paths[index + 1 :]:
                    later_path.unlink()
                return

    def append(self, batch: StoredBatch) -> None:
        """Append a batch.

        Raises:
            OSError: The batch was not written.
        """
        if not self._is_created:
            self._create()
        if not self._files or self._files[-1].size + len(batch.data) > SEGMENT_BYTES:
            self._files.append(AppendOnlyFile(self.directory / f"{batch.base_offset:020d}.log", levels=_LEVELS))
            self._base_offsets.append(batch.base_offset)
        self._files[-1].append(batch.data)

    async def wait_until_synced(self) -> None:
        """Wait until all appended data is on disk.

        Raises:
            OSError: The data may be lost.
        """
        for file in list(self._files):
            await file.wait_until_synced()

    def delete_before(self, offset: int) -> None:
        """Remove the files that contain only offsets before `offset`; always keep the newest file."""
        removed_count = sum(base <= offset for base in self._base_offsets[1:])
        for file in self._files[:removed_count]:
            file.close()
            file.path.unlink(missing_ok=True)
        del self._files[:removed_count], self._base_offsets[:removed_count]

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()
        self._files.clear()

    def delete(self) -> None:
        """Delete all files."""
        self.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _complete_batches(data: bytes) -> Iterator[StoredBatch]:
    """Yield the batches at the start of a file, up to the first one that is truncated or has a wrong CRC."""
    for entry in entries(data, 0, len(data)):
        if entry.magic != 2 or entry.end - entry.start < HEADER.size:
            return
        raw = data[entry.start : entry.end]
        header = read_header(raw)
        if google_crc32c.value(raw[CRC_START:]) != header.crc:
            return
        yield StoredBatch(header.base_offset, header.base_offset + header.last_offset_delta, header.max_timestamp, raw)
