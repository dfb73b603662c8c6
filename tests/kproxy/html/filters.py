"""Filters that are evaluated both in Python and, by the page's script, in a browser."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kproxy.filters import FilterError, parse
from kproxy.filters.page import EXAMPLES
from kproxy.html.assemble import MODULES, join_modules
from kproxy.html.filter_fields import filter_fields
from kproxy.trace.encoding import as_mapping, encode_json
from tests.kproxy.capture_results import DATA, lines_of
from tests.kproxy.filters import test_evaluate, test_line_text, test_parser, test_record_fields

#: Further filters whose two results could differ: numbers, non-Latin letters and patterns.
_MORE = (
    r"topic~'^[\w.]+$'", r"topic~'[]o-r]rd'", r"topic~'(?i)^ORDERS$'", r"topic~'o(r|d){2,3}?e'", r"message~'[\d-]|\.'",
    r"topic~'a\-b'", r"topic~'}'", r"topic~'('", r"topic~')'", r"topic~'a{3,2}'", r"topic~'*'", r"topic~'\b'",
    r"topic~'(?=a)'", "topic=ord?rs", "topic='ord*'", "api=f*", "latency>0.0615s", "latency=60.0ms",
    "latency<=60.0000001ms",
    "latency=1x", "size>1XB", "size=2.0KiB", "version=-1", "acks=-1", "acks<0", "error=-1", "error=0", "error=NONE",
    "error~LEADER", "error>5", "error=NOPE", "ts>2025-06-30", "ts=2025-06-30T12:00:00.25Z", "ts<2025-06-31T1", "tls=no",
    "tls=false", "marked=false", "severity>=fatal", "kind=respons", "api=Fech", "api>Fetch", "blame=me", "topik=1",
    "software='kafka-clients *'", "client~'10[.]'", "lag!=0", "partition!=9", "éèê=1", "topic=é~", "api=Fetch  &  x",
    "topic=\"a'b\" x", "group!=a", "not group=a", "unanswered=0", "frames=0", "frames", "bytes=4KiB",
    "direction=response",
)  # fmt: skip


def sample_texts() -> list[str]:
    """Return valid and invalid filters: those in the tests of the filter language, those on its page, and more."""
    texts = [*EXAMPLES, *_MORE, *test_record_fields.FOUND, *test_record_fields.NOT_FOUND]
    texts += [f"{field}=1" for field in test_record_fields.INVALID]
    texts += [
        *test_line_text.FOUND,
        *test_line_text.NOT_FOUND,
        *test_line_text.IN_RECORDS,
        *test_line_text.NOT_IN_RECORDS,
    ]
    for module in (test_evaluate, test_parser, test_line_text):
        for name, test in vars(module).items():
            for mark in getattr(test, "pytestmark", ()) if name.startswith("test_") else ():
                if mark.name == "parametrize" and "text" in mark.args[0]:
                    texts += [case if isinstance(case, str) else case[0] for case in mark.args[1]]
    return texts


def lines() -> list[Mapping[str, Any]]:
    """Return lines of every kind."""
    sample_lines = [value for value in vars(test_evaluate).values() if isinstance(value, dict) and "kind" in value]
    captured = lines_of(DATA / "bugs" / "metadata-throttle-first--java.pcap.gz")
    records = [json.loads(encode_json(value)) for value in (test_record_fields.PRODUCE, test_record_fields.UNDECODED)]
    return [*sample_lines, test_line_text.LINE, *records, *map(as_mapping, itertools.islice(captured, 40))]


def match_results(texts: Iterable[str], lines: Sequence[Mapping[str, Any]]) -> Iterator[list[bool] | str]:
    """Yield, for each filter, whether each line matches, or the error message if the filter is invalid."""
    for text in texts:
        try:
            line_filter = parse(text)
        except FilterError as error:
            yield str(error)
        else:
            yield [line_filter.matches(line) for line in lines]


def match_results_script(texts: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> str:
    """Return a JavaScript expression that computes `match_results` with the page's script."""
    return f"""(() => {{
      const lines = {json.dumps(lines)};
      {join_modules([name for name in MODULES if name.startswith("filter_") and name != "filter_box.js"])}
      const {{ FilterError }} = filter_errors_js, {{ compileFilter }} = filter_match_js;
      filter_text_js.setFields({encode_json(filter_fields()).decode()});
      return {json.dumps(texts)}.map((text) => {{
        try {{ return lines.map(compileFilter(text).test); }} catch (error) {{
          if (!(error instanceof FilterError)) throw error;
          return error.format(text);
        }}
      }});
    }})()"""
