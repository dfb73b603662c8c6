"""What a broker with ``--data`` keeps on the disk: a journal of small things, and the logs in Kafka's own format.

What is appended is handed to the operating system before it is acknowledged, so that a broker that is killed loses
nothing. With ``--fsync`` the disk has it before acks=all is answered, so that the machine may lose power. Without it,
what the machine had not yet written by itself is lost then (with Linux's defaults the last 30 seconds), and so is in
either case what was sent with acks=1 or acks=0.
"""

from kproxy.broker.storage.journal import FileJournal, Unusable
from kproxy.broker.storage.segments import Segments

__all__ = ["FileJournal", "Segments", "Unusable"]
