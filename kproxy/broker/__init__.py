"""The built-in broker: a Kafka cluster in this process, right enough for every client, wrong on request."""

from kproxy.broker.broker import Broker
from kproxy.broker.options import BrokerOptions

__all__ = ["Broker", "BrokerOptions"]
