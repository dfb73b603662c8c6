"""Records that members of share groups hold, from trace lines."""

from kproxy.shares.overview import HeldRecords, SharesOverview

__all__ = ["HeldRecords", "SharesOverview"]
