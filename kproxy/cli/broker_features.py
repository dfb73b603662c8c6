"""``kproxy broker-features``: lists the APIs of the built-in broker, and what each of them leaves out."""

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
    from kproxy.outputs.broker_pages import pages, unserved_apis
    from kproxy.outputs.terminal_table import Column, write_columns

    api_pages = pages()
    if args.api is not None:
        api_page = next((page for page in api_pages if page.api.lower() == args.api.lower()), None)
        if api_page is None:
            from kproxy.filters.errors import suggestion

            similar = suggestion(args.api, [page.api for page in api_pages]) or "kproxy broker-features lists its APIs"
            raise UserError(f"the built-in broker does not serve {args.api!r}; {similar}")
        notes = "".join(f"\n  v{version}: {note}" for version, note in api_page.changes)
        page = f"{api_page.text}\n\nVersions: {api_page.versions}.{notes}"
        print(json.dumps(dataclasses.asdict(api_page), indent=2) if args.json else page)  # noqa: T201
        return CLEAN
    if args.json:
        print(json.dumps([dataclasses.asdict(page) for page in api_pages], indent=2))  # noqa: T201
        return CLEAN
    rows = zip(*((page.api, page.versions, page.does, page.leaves_out) for page in api_pages), strict=True)
    headings = ("API", "versions", "does", "leaves out")
    columns = [Column(heading, cells, number=False) for heading, cells in zip(headings, rows, strict=True)]
    write_columns("The built-in broker", columns, f"Not served: {', '.join(unserved_apis())}.", sys.stdout)
    return CLEAN
