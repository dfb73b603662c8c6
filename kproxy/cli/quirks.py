"""``kproxy quirks``: lists the bugs that the built-in broker can reproduce."""

from __future__ import annotations

import argparse
import json

from kproxy.errors import CLEAN, UserError
from kproxy.escaping import terminal

HELP = "list the bugs that the built-in broker can reproduce"

_EXAMPLES = """
examples:
  kproxy quirks
  kproxy quirks go-gateway
  kproxy quirks 'JoinGroup:2:moved:throttle_time_ms:last'
  kproxy --listen 9092 --upstream --quirk go-gateway
  kproxy --listen 9092 --upstream --quirk 'Fetch:delay:500,client=consumer-1,probability=0.1'

A quirk is API[:VERSIONS]:KIND[:WORDS][,CONDITION=VALUE]. API can be *. VERSIONS is 2, 0-3 or 9+. Conditions:
client=CLIENT_ID, topic=NAME, probability=0.1, times=3. A JSON edit (docs/edits.md) can replace KIND and WORDS.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("quirk", nargs="?", metavar="QUIRK", help="describe this quirk, given by name or notation")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Print the list, or the description of a quirk; return the exit status."""
    from kproxy.broker.quirks import QuirkError, parse

    if args.quirk is None:
        print(json.dumps(_quirks_json(), indent=2) if args.json else "\n".join(_lines()))  # noqa: T201
        return CLEAN
    try:
        quirks = parse(args.quirk)
    except QuirkError as error:
        raise UserError(str(error)) from None
    if args.json:
        entries = [{"quirk": quirk.text, "says": quirk.description} for quirk in quirks]
        print(json.dumps(entries, indent=2))  # noqa: T201
    else:
        for quirk in quirks:
            print(f"{terminal(quirk.text)}\n    {terminal(quirk.description)}")  # noqa: T201
    return CLEAN


def _lines() -> list[str]:
    from dissectors.edits.notation import PARAMETERS
    from kproxy.broker.quirks import SETS
    from kproxy.broker.quirks.behaviours import BEHAVIOURS

    width = max(map(len, SETS))
    lines = ["Named quirks", *(f"  {name:{width}}  {quirk_set.description}" for name, quirk_set in SETS.items())]
    lines += [
        "",
        "Kinds of behaviour",
        *(f"  API:{_usage(name, behaviour.parameters)}" for name, behaviour in BEHAVIOURS.items()),
    ]
    lines += ["", "Kinds of layout (docs/edits.md)"]
    lines += [f"  API:{_usage(name.removeprefix('field_'), parameters)}" for name, parameters in PARAMETERS.items()]
    return [*lines, *_EXAMPLES.rstrip().splitlines()]


def _usage(name: str, parameters: tuple[str, ...]) -> str:
    return ":".join((name, *parameters))


def _quirks_json() -> object:
    from dissectors.edits.notation import PARAMETERS
    from kproxy.broker.quirks import SETS
    from kproxy.broker.quirks.behaviours import BEHAVIOURS

    return {
        "sets": {name: {"says": quirk_set.description, "quirks": quirk_set.quirks} for name, quirk_set in SETS.items()},
        "behaviours": {name: behaviour.parameters for name, behaviour in BEHAVIOURS.items()},
        "layouts": {name.removeprefix("field_"): parameters for name, parameters in PARAMETERS.items()},
    }
