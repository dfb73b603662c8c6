"""The logs of partitions: batches as sent, with their offsets."""

from kproxy.broker.log.log import Log

__all__ = ["Log"]
