"""The data of a broker with ``--data``: a journal for small tables, and the logs in Kafka's own format.

Data is passed to the operating system before it is acknowledged, so a killed broker loses nothing. With ``--fsync`` it
is on disk before acks=all is acknowledged, so it survives a power failure. Without it, a power failure loses what the
operating system had not written yet (with Linux's defaults the last 30 seconds). Data sent with acks=1 or acks=0 may be
lost in both cases.
"""

from kproxy.broker.storage.journal import DataDirectoryError, FileJournal
from kproxy.broker.storage.segments import Segments

__all__ = ["DataDirectoryError", "FileJournal", "Segments"]
