"""Chooses the engine of a command: Sail in a process of its own, Spark, or no engine for `convert`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from kproxy.cli.analyze.sizes import total_size
from kproxy.errors import UserError
from kproxy.io.extras import install_command
from kproxy.spark.session.embedded_engine import is_installed, memory_limit

if TYPE_CHECKING:
    from kproxy.filters.nodes import Node

AUTO, EMBEDDED, SPARK = "auto", "embedded", "spark"
ENGINES = (AUTO, EMBEDDED, SPARK)
#: Formats of tables that only Spark reads and writes here.
_SPARK_FORMATS = ("delta", "iceberg")


class Choice(NamedTuple):
    """The chosen engine, if any; `why` it was chosen, if not by the user; and the URL of a Spark master or server."""

    engine: str | None
    why: str = ""
    master: str | None = None


def choose_engine(args: argparse.Namespace, *, converts: bool) -> Choice:
    """Return the engine for a command line.

    Raises:
        UserError: Options contradict each other, or the embedded engine cannot run the command.
    """
    if args.master and args.remote:
        raise UserError("--master and --remote are two places to run: pass one of them")
    if args.remote and not args.remote.startswith("sc://"):
        raise UserError(f"invalid --remote {args.remote}: use sc://HOST:PORT of a Spark Connect server")
    master = args.remote or args.master
    requirement = _spark_requirement(args, converts=converts)
    if args.engine == EMBEDDED:
        if requirement:
            raise UserError(f"the embedded engine does not do that ({requirement}): pass --engine spark")
        return Choice(None if converts else EMBEDDED)
    if args.engine == SPARK or master:
        return Choice(SPARK, master=master)
    if requirement:
        return Choice(SPARK, requirement)
    if converts:
        return Choice(None)
    return _choose_by_packages_and_size(args.traces)


def _choose_by_packages_and_size(paths: Sequence[str]) -> Choice:
    has_spark = find_spec("py4j") is not None
    if not is_installed():
        if not has_spark:
            raise UserError(f"this needs an engine for tables: {install_command('analytics')}")
        return Choice(SPARK, "Sail is not installed")
    size, limit = total_size(paths), memory_limit()
    if size <= limit:
        return Choice(EMBEDDED, "the input fits this machine")
    amounts = f"about {_gigabytes_text(size)} of trace lines, more than half of the memory ({_gigabytes_text(limit)})"
    if not has_spark:
        return Choice(EMBEDDED, f"{amounts}, and Spark is not installed")
    return Choice(SPARK, amounts)


def _spark_requirement(args: argparse.Namespace, *, converts: bool) -> str:
    """Return why the command needs Spark; empty if it does not."""
    if args.conf:
        return "--conf has Spark's settings"
    if any(name in os.environ for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")):
        return "spark-submit or SPARK_REMOTE chose a session"
    if args.master or args.remote:
        return "--master and --remote are Spark's"
    if args.follow:
        return "--follow is a stream"
    if args.repair:
        return "--repair rewrites a table"
    if args.where and (reason := _spark_only_part(args.where)):
        return reason
    if args.format in _SPARK_FORMATS:
        return f"--format {args.format}"
    paths = [*args.traces, *([args.out] if args.out else [])]
    for path in paths:
        if urlsplit(path).scheme not in ("", "file"):
            return f"{path} is not a local path"
    if table_format := next(filter(None, map(_format_of_table, [args.out or ""] if converts else args.traces)), ""):
        return f"a table of {table_format}"
    return ""


def _spark_only_part(filter_text: str) -> str:
    """Return which part of a filter only Spark can evaluate; empty if there is none."""
    from kproxy.filters.fields import Kind
    from kproxy.filters.nodes import And, Not, Or, Text
    from kproxy.outputs.line_outputs import filter_for

    parsed_filter = filter_for(filter_text)
    nodes: list[Node] = [] if parsed_filter is None else [parsed_filter.node]
    for node in nodes:
        if isinstance(node, Not):
            nodes.append(node.term)
        elif isinstance(node, And | Or):
            nodes += node.terms
        elif isinstance(node, Text):
            return f"the search for {node.value.text!r} runs Python in the engine"
        elif node.field.kind is Kind.RECORD:
            return f"{node.field.name} runs Python in the engine"
    return ""


def _format_of_table(path: str) -> str:
    """Return the format of a local table if only Spark can read it; otherwise an empty string."""
    for record in Path(path.removeprefix("file:"), "_files").glob("batch=*/*.json"):
        with suppress(OSError):
            text = record.read_text()
            return next((table_format for table_format in _SPARK_FORMATS if f'"format":"{table_format}"' in text), "")
    return ""


def _gigabytes_text(size: int) -> str:
    return f"{size / (1 << 30):.1f} GB"
