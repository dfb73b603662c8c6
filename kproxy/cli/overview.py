"""The first page of the help: what kproxy is, how to start it, and its commands, all on one screen."""

from __future__ import annotations

from collections.abc import Iterable

_HEAD = """\
usage: kproxy COMMAND ...
       kproxy --listen [HOST:]PORT --upstream [HOST:PORT] [option ...]

Wire-level inspecting proxy and protocol debugger for Apache Kafka.

start the proxy:
  kproxy --listen 9092 --upstream                          with its own broker
  kproxy --listen 9092 --upstream broker:9092 --advertise  before your brokers

commands:
"""
_TAIL = """
more help:
  kproxy help relay       the options of the proxy and of the built-in broker
  kproxy help COMMAND     the options of a command, with examples
  kproxy help exit-codes  the exit codes of all commands
  kproxy --version        the version
"""


def overview(commands: Iterable[tuple[str, str]]) -> str:
    """Return the page that lists these commands, each with its description."""
    return _HEAD + "".join(f"  {name:<15}  {text}\n" for name, text in commands) + _TAIL
