"""The built-in broker: a Kafka cluster in this process that works with every client; quirks reproduce broker bugs."""

from kproxy.broker.broker import Broker
from kproxy.broker.options import BrokerOptions

__all__ = ["Broker", "BrokerOptions"]
