"""Record data: message sets of formats 0 and 1, batches of format 2, their compression and control records."""

from dissectors.records.compression import DEFAULT_LIMIT
from dissectors.records.encode import encode
from dissectors.records.reader import RecordsWalkResult, decode, walk
from dissectors.records.summary import Outline, RecordsSummary, outline, summarize

__all__ = [
    "DEFAULT_LIMIT",
    "Outline",
    "RecordsSummary",
    "RecordsWalkResult",
    "decode",
    "encode",
    "outline",
    "summarize",
    "walk",
]
