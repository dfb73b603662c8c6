"""`kproxy probe`: tests whether a broker conforms to Kafka's protocol."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kproxy.cli import client_options
from kproxy.cli.combinations import refuse
from kproxy.errors import CLEAN, FINDINGS, NOTHING, UserError

HELP = "test whether a broker conforms to Kafka's protocol"

_EXAMPLES = """
Each check has a stable id, e.g. Metadata/v9/2 or framing/pipelined; docs/probe.md explains them. Without --write
nothing is created on the broker. With it, topics and groups whose names begin with --prefix are created and deleted.

examples:
  kproxy probe localhost:9092
  kproxy probe localhost:9092 --write --junit probe.xml
  kproxy probe localhost:9092 --write --html probe.html
  kproxy probe localhost:9092 --only framing,Metadata/v9
  kproxy probe localhost:9092 --skip versions/unknown-api
  kproxy probe --list                             # every check
  kproxy probe --list --only versions             # with their pages: add --verbose
"""


_RUN_OPTIONS = ("write", "prefix", "at_once", "strict", "json", "junit", "html", *client_options.DESTINATIONS)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("address", nargs="?", metavar="HOST:PORT", help="the broker")
    parser.add_argument("--list", action="store_true", help="list the checks instead of running them")
    parser.add_argument("--only", metavar="IDS", action="append", default=[],
                        help="run only these checks: ids or their beginnings, e.g. framing,Metadata/v9")  # fmt: skip
    parser.add_argument("--skip", metavar="IDS", action="append", default=[],
                        help="do not run these checks, e.g. one that the broker does not survive")  # fmt: skip
    parser.add_argument("--write", action="store_true", help="also run checks that create topics, records and groups")
    parser.add_argument("--prefix", default="kproxy-probe", metavar="NAME",
                        help="how the names of topics and groups begin (default: %(default)s)")  # fmt: skip
    parser.add_argument("--at-once", type=int, default=8, metavar="N",
                        help="run this many checks at the same time (default: %(default)s)")  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="skipped checks fail, too")
    parser.add_argument("--verbose", action="store_true", help="also list passed checks; with --list, their pages")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print a JSON line per check, then one with the summary")
    output.add_argument("--junit", metavar="FILE", help="also write JUnit XML; '-' for standard output")
    parser.add_argument("--html", metavar="FILE", help="also write the results as a self-contained HTML page")
    client_options.configure(parser)
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    import asyncio

    from kproxy.probe.selection import select

    selected = select(args.only, args.skip)
    if args.list:
        refuse(args, _RUN_OPTIONS, "has no effect with --list, which runs no check")
        if args.address is not None:
            raise UserError(f"{args.address}: --list asks no broker: leave out the address")
        from kproxy.outputs.probe_report import listing

        sys.stdout.writelines(listing(selected, pages=args.verbose))
        return CLEAN
    if args.address is None:
        raise UserError("pass the broker's address, e.g. kproxy probe localhost:9092, or --list")
    if not args.write:
        refuse(args, ("prefix",), "needs --write: other checks create nothing")
    if args.json or args.junit == "-":
        refuse(args, ("verbose",), f"is for text: leave it out with {'--json' if args.json else '--junit -'}")
    if args.at_once < 1:
        raise UserError(f"--at-once {args.at_once}: use 1 or more")
    address, tls, login = (
        client_options.address_of(args.address),
        client_options.tls_of(args),
        client_options.login_of(args),
    )

    from kproxy.outputs.probe_report import ProbeReport, junit
    from kproxy.probe.clients import scores
    from kproxy.probe.run import run_checks
    from kproxy.probe.target import Target

    report = ProbeReport(sys.stdout, as_json=args.json, passed=args.verbose, quiet=args.junit == "-")

    target = Target(address, args.timeout, tls, login, prefix=args.prefix)

    async def probe() -> None:
        await target.learn_versions()
        async for result in run_checks(target, selected, writes=args.write, at_once=args.at_once):
            report.add(result)

    asyncio.run(probe())
    client_scores = scores(report.results, target.served)
    report.end(client_scores)
    if args.html:
        from kproxy.html.probe_page import probe_page

        _write("--html", args.html, probe_page(args.address, report.results, client_scores))
    if args.junit:
        _write("--junit", args.junit, junit(args.address, report.results, strict=args.strict))
    counts = report.counts
    if counts["fail"] or (args.strict and counts["skip"]):
        return FINDINGS
    return CLEAN if counts["pass"] else NOTHING


def _write(option: str, path: str, text: str) -> None:
    if path == "-" and option == "--junit":
        sys.stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{option} {path}: {error.strerror}; choose another file") from None
