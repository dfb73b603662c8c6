"""Wire-level inspecting proxy and protocol debugger for Apache Kafka."""

__version__ = "0.1.0"
