"""``kproxy broker-features``: lists the APIs of the built-in broker, with what it omits."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from kproxy.errors import CLEAN, UserError

HELP = "list the APIs of the built-in broker, or describe one"

_EXAMPLES = """
examples:
  kproxy broker-features
  kproxy broker-features Fetch
  kproxy broker-features --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("api", nargs="?", metavar="API", help="API name as in Kafka, e.g. Fetch")
    parser.add_argument("--json", action="store_true", help="print JSON: an array, or an object for one API")
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Print the table, or the page of an API; return the exit status."""
    from kproxy.outputs.broker_pages import not_served, pages
    from kproxy.outputs.terminal_table import Column, write_columns

    found = pages()
    if args.api is not None:
        one = next((each for each in found if each.api.lower() == args.api.lower()), None)
        if one is None:
            from kproxy.filters.errors import suggestion

            near = suggestion(args.api, [each.api for each in found]) or "kproxy broker-features lists its APIs"
            raise UserError(f"the built-in broker does not serve {args.api!r}; {near}")
        notes = "".join(f"\n  v{version}: {note}" for version, note in one.changes)
        page = f"{one.text}\n\nVersions: {one.versions}.{notes}"
        print(json.dumps(dataclasses.asdict(one), indent=2) if args.json else page)  # noqa: T201
        return CLEAN
    if args.json:
        print(json.dumps([dataclasses.asdict(each) for each in found], indent=2))  # noqa: T201
        return CLEAN
    rows = zip(*((each.api, each.versions, each.does, each.leaves_out) for each in found), strict=True)
    headings = ("API", "versions", "does", "leaves out")
    columns = [Column(heading, cells, number=False) for heading, cells in zip(headings, rows, strict=True)]
    write_columns("The built-in broker", columns, f"Not served: {', '.join(not_served())}.", sys.stdout)
    return CLEAN
