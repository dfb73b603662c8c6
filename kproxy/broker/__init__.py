"""The built-in broker: a Kafka cluster in this process, right enough for every client, wrong on request."""

from kproxy.broker.broker import Broker
from kproxy.broker.options import Options

__all__ = ["Broker", "Options"]
