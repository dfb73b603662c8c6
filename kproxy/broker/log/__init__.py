"""What the partitions hold: batches as they were sent, with the offsets that they got."""

from kproxy.broker.log.log import Log

__all__ = ["Log"]
