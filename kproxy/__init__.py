"""Wire-level inspecting proxy and protocol debugger for Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kproxy.broker import Broker as Broker

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Broker":  # made at the first use: the command line does not need it
        from kproxy.broker import Broker

        return Broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
