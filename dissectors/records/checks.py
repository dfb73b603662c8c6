"""Check record data: the header and CRC of every batch, and the records of selected batches."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import google_crc32c

from dissectors.records import message_set
from dissectors.records.batch import CRC_START, HEADER
from dissectors.records.checksums import find_checksum_variant, find_header_variant
from dissectors.records.compression import CODECS
from dissectors.records.faults import Fault, FaultKind
from dissectors.records.formats import LOG_OVERHEAD, BatchEntry, count_text, entries
from dissectors.records.record_checks import BatchSpan, check_records, check_wrapped_records

#: The most bad batches per message whose records are examined; faults in more would only be reported as repeats.
MAX_SUSPECTS = 4

# The length, attributes, two deltas, key length, value length and header count take at least a byte each.
_SMALLEST_RECORD = 7

_CODEC_COUNT = len(CODECS)

# Faster than `BatchSpan(...)`, which matters because every batch is read in this way.
_new_tuple = tuple.__new__

_MESSAGE = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">18xq")

_NO_OFFSET = -(2**64)  # below every offset


class ExaminationResult(NamedTuple):
    """The complete batches and messages of a field, and their faults.

    `cut_off` is the size of a truncated batch at the end, `suspects` the number of bad batches whose records were
    examined.
    """

    batches: list[BatchSpan]
    faults: list[Fault]
    cut_off: int
    suspects: int


def read_valid_batch(data: bytes | memoryview, start: int, end: int, *, produced: bool) -> BatchSpan | None:
    """Return the batch in ``data[start:end]`` if it has format 2, a valid header and a valid CRC.

    This is a fast check for the usual case.
    """
    if end - start < HEADER.size:
        return None
    batch = _new_tuple(BatchSpan, (start, end, *HEADER.unpack_from(data, start)))
    return batch if batch.magic == 2 and is_valid(data, batch, produced=produced) else None


def is_valid(data: bytes | memoryview, batch: BatchSpan, *, produced: bool) -> bool:
    """Whether `examine` would find no fault in the header and CRC of a batch of format 2."""
    start, end, _, length, _, _, crc, attributes, last_delta, _, _, _, _, _, count = batch
    size = end - start
    return (
        length == size - LOG_OVERHEAD
        and (count > 0 and last_delta == count - 1 if produced else 0 <= count <= last_delta + 1)
        and (codec := attributes & 7) < _CODEC_COUNT
        and (codec > 0 or count * _SMALLEST_RECORD <= size - HEADER.size)
        and google_crc32c.value(bytes(data[start + CRC_START : end])) == crc
    )


def are_valid(data: bytes | memoryview, batches: Sequence[BatchSpan], *, produced: bool) -> bool:
    """Whether `examine` would find no fault in the headers, the CRCs and the offsets of batches of format 2."""
    last_offset = _NO_OFFSET
    for batch in batches:
        if not is_valid(data, batch, produced=produced) or (not produced and batch.base_offset <= last_offset):
            return False
        last_offset = batch.base_offset + batch.last_offset_delta
    return True


class _Examination:
    """The examination of one field."""

    def __init__(
        self, data: bytes | memoryview, selects: Callable[[int], bool], produced: bool, max_suspects: int
    ) -> None:
        self.data = data
        self.selects = selects
        self.produced = produced
        self.max_suspects = max_suspects
        self.batches: list[BatchSpan] = []
        self.faults: list[Fault] = []
        self.suspects = 0
        self.last_offset = _NO_OFFSET

    def add_batches(self, batches: Sequence[BatchSpan]) -> None:
        """Add batches of format 2."""
        data, produced = self.data, self.produced
        for index, batch in enumerate(batches):
            if is_valid(data, batch, produced=produced):
                self.add_valid(index, batch)
            else:
                self.add_invalid_batch(index, batch.start, batch.end)
            if not produced:
                base_offset = batch.base_offset
                if base_offset <= self.last_offset:
                    self.faults.append(_offset_fault(index, batch, self.last_offset))
                self.last_offset = base_offset + batch.last_offset_delta

    def check_offset(self, index: int) -> None:
        """In a broker's log, check that the offset of the batch at `index`, if any, is above the previous offset."""
        if self.produced or index >= len(self.batches):
            return
        batch = self.batches[index]
        if batch.base_offset <= self.last_offset:
            self.faults.append(_offset_fault(index, batch, self.last_offset))
        self.last_offset = batch.base_offset + batch.last_offset_delta

    def add_valid(self, index: int, batch: BatchSpan) -> None:
        """Add a batch of format 2 with a valid header and CRC."""
        self.batches.append(batch)
        if self.selects(batch.records_count) and self.suspects < self.max_suspects:
            faults = list(check_records(self.data, index, batch, produced=self.produced))
            self.faults += faults
            self.suspects += bool(faults)

    def add_invalid_batch(self, index: int, start: int, end: int) -> None:
        """Add a batch of format 2 with an invalid header or CRC."""
        data = self.data
        if end - start < HEADER.size:
            text = f"batch_length {end - start - LOG_OVERHEAD} is too small for the header of a batch"
            self.faults.append(Fault(FaultKind.LENGTH, (str(index), "batch_length"), start + 8, start + 12, text))
            return
        batch = _new_tuple(BatchSpan, (start, end, *HEADER.unpack_from(data, start)))
        self.batches.append(batch)
        computed = google_crc32c.value(bytes(data[start + CRC_START : end]))
        if computed != batch.crc and not self._report_wrong_crc(index, batch, computed):
            return
        if batch.attributes & 7 >= len(CODECS):
            self._report_unknown_codec(index, batch, start + CRC_START, 2)
        elif self.suspects < self.max_suspects:
            self.suspects += 1
            faults = list(check_records(data, index, batch, produced=self.produced))
            if not faults and batch.records_count == 0 and self.produced:
                span = start + HEADER.size - 4, start + HEADER.size
                text = "the batch has no records, a producer must send at least one"
                path = (str(index), "records_count")
                faults.append(Fault(FaultKind.COUNT, path, *span, text, "1 or more", "0", proven=False))
            self.faults += faults

    def add_message(self, index: int, start: int, end: int) -> None:
        """Add a message of format 0 or 1."""
        data = self.data
        offset, size, crc, magic, attributes = _MESSAGE.unpack_from(data, start)
        timestamp = _TIMESTAMP.unpack_from(data, start)[0] if magic and end - start >= _TIMESTAMP.size else -1
        message = BatchSpan(start, end, offset, size, -1, magic, crc, attributes, 0, timestamp, timestamp)
        self.batches.append(message)
        computed = zlib.crc32(data[start + message_set.CRC_START : end])
        if computed != crc and not self._report_wrong_crc(index, message, computed):
            return
        if attributes & 7 > CODECS.index("lz4"):
            self._report_unknown_codec(index, message, start + message_set.CRC_START + 1, 1)
        elif self.selects(1) and self.suspects < self.max_suspects:
            faults = list(check_wrapped_records(data, index, message))
            self.faults += faults
            self.suspects += bool(faults)

    def add_tail(self, index: int, entry: BatchEntry) -> None:
        """Add the bytes at the end that do not form a complete batch."""
        start = entry.start
        if entry.fault is not None:
            kind = FaultKind.MAGIC if entry.fault.path == ("magic",) else FaultKind.LENGTH
            size = 1 if kind is FaultKind.MAGIC else 4
            span = entry.fault.offset, entry.fault.offset + size
            self.faults.append(Fault(kind, (str(index), *entry.fault.path), *span, entry.fault.message))
        elif self.produced:
            byte_count = count_text(entry.end - start, "byte")
            if entry.end - start < LOG_OVERHEAD:
                text, span = f"{byte_count} at the end are not a complete batch", (start, entry.end)
            else:
                length = int.from_bytes(self.data[start + 8 : start + 12], "big", signed=True)
                size = length + LOG_OVERHEAD
                text = f"batch_length {length} makes a batch of {size} bytes, but only {byte_count} follow"
                span = start + 8, start + 12
            self.faults.append(Fault(FaultKind.LENGTH, (str(index), "batch_length"), *span, text, proven=False))

    def _report_wrong_crc(self, index: int, batch: BatchSpan, computed: int) -> bool:
        """Report a wrong CRC; return whether it is another common checksum of the batch."""
        start = batch.start + (CRC_START if batch.magic == 2 else message_set.CRC_START) - 4
        location = (str(index), "crc"), start, start + 4
        crcs = f"0x{computed:08x}", f"0x{batch.crc:08x}"
        batch_bytes = bytes(self.data[batch.start : batch.end])
        checksum_name = (
            find_checksum_variant(batch_bytes, batch.magic, batch.crc) if self.suspects < self.max_suspects else None
        )
        self.suspects += 1
        if checksum_name is None:
            text = f"the CRC is {crcs[1]}, that of the bytes is {crcs[0]}"
            if (
                batch.magic == 2
                and self.suspects <= self.max_suspects
                and (header := find_header_variant(batch_bytes, batch.crc))
            ):
                text += f"; it is that of the same batch with {header}"
            self.faults.append(Fault(FaultKind.CRC, *location, text, *crcs, proven=False))
            return False
        correct_checksum = (
            "CRC-32C (Castagnoli) from the attributes on" if batch.magic == 2 else "CRC-32 (IEEE) from the magic on"
        )
        text = f"the CRC {crcs[1]} is the {checksum_name}, should be {crcs[0]}, the {correct_checksum}"
        self.faults.append(Fault(FaultKind.OTHER_CHECKSUM, *location, text, *crcs))
        return True

    def _report_unknown_codec(self, index: int, batch: BatchSpan, start: int, size: int) -> None:
        codec = batch.attributes & 7
        exists = codec < len(CODECS)
        text = f"the attributes name compression codec {codec}, which does not exist"
        if exists:
            text += f" in record format {batch.magic}"
        path = (str(index), "attributes")
        self.faults.append(Fault(FaultKind.CODEC, path, start, start + size, text, got=str(codec)))


def examine(
    data: bytes | memoryview,
    *,
    selects: Callable[[int], bool],
    produced: bool,
    most_suspects: int = MAX_SUSPECTS,
    batches: Sequence[BatchSpan] = (),
) -> ExaminationResult:
    """Check the header and CRC of every batch, and the records of selected and suspicious batches.

    Args:
        data: The value of a ``records`` field.
        selects: Tells whether to examine the records of the next batch, given the record count in its header.
        produced: Whether a client wrote the data; a broker's log may have gaps and a truncated end.
        most_suspects: The most bad batches whose records are examined.
        batches: The headers of all batches, if they have been read already.

    Never raises.
    """
    examination = _Examination(data, selects, produced, most_suspects)
    if batches:
        examination.add_batches(batches)
        return ExaminationResult(examination.batches, examination.faults, 0, examination.suspects)
    cut_off = 0
    for index, entry in enumerate(entries(data, 0, len(data))):
        start, end, magic, fault = entry
        if magic is None:
            examination.add_tail(index, entry)
            cut_off = 0 if fault else end - start
        elif magic == 2:
            batch = read_valid_batch(data, start, end, produced=produced)
            if batch is None:
                examination.add_invalid_batch(index, start, end)
            else:
                examination.add_valid(index, batch)
        else:
            examination.add_message(index, start, end)
        examination.check_offset(index)
    return ExaminationResult(examination.batches, examination.faults, cut_off, examination.suspects)


def _offset_fault(index: int, batch: BatchSpan, previous_offset: int) -> Fault:
    name = "base_offset" if batch.magic == 2 else "offset"
    text = f"a batch at offset {batch.base_offset} follows one that ends at {previous_offset}"
    span = batch.start, batch.start + 8
    got = str(batch.base_offset)
    return Fault(FaultKind.OFFSETS, (str(index), name), *span, text, f"above {previous_offset}", got, proven=False)
