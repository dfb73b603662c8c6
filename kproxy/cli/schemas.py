"""`kproxy schemas`: make the protocol's facts anew from Kafka releases (for developers)."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.cli.errors import CLEAN, FINDINGS, CommandError

if TYPE_CHECKING:
    from dissectors.schemas.importer.data import Release

HELP = "make the protocol's facts anew from Kafka releases"

_EXAMPLES = """
Name every release whose versions kproxy shall know: the data hold their union, and nothing else. Read the report before
you commit the data; a "note" is about versions that do not mean the same in every release.

examples:
  kproxy schemas import 3.9.1 4.4.0
  kproxy schemas import 3.9.1 4.4.0 --jars ~/.m2/repository
  kproxy schemas import --check                 # the releases in the data, without writing

exit status: 0 done (with --check: nothing to change), 1 with --check: the data would change, 2 cannot import
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    child = actions.add_parser(
        "import", help=HELP, description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    child.add_argument("releases", nargs="*", metavar="RELEASE", help="e.g. 3.9.1 4.4.0; default: those in the data")
    child.add_argument("--jars", type=Path, metavar="DIR", help="directory with the jars; default: Maven fetches them")
    child.add_argument("--output", type=Path, metavar="DIR", help="where to write; default: dissectors/schemas")
    child.add_argument("--check", action="store_true", help="write nothing, only report what would change")
    child.add_argument("--json", action="store_true", help='one object: {"notes": [...], "changes": [...]}')
    child.epilog = _EXAMPLES


def run(args: argparse.Namespace) -> int:
    """Run the command; the exit status."""
    from dissectors import schemas
    from dissectors.schemas.importer.data import FILES, Data, make
    from dissectors.schemas.importer.report import changes

    directory = args.output or Path(schemas.__file__).parent
    try:
        made, notes = make(_read(_oldest_first(args.releases or schemas.releases()), args.jars))
    except ValueError as error:
        raise CommandError(f"the definitions cannot be united: {error}") from None
    files = made.files()
    try:
        present = {name: (directory / name).read_bytes() for name in FILES}
    except FileNotFoundError:
        present = Data({}, {}, {}, {}).files()
    lines = changes(Data.parse(present), made)
    if present != files and not lines:
        lines = ["~ the files are written otherwise"]
    _report(notes, lines, args.json)
    if args.check:
        return FINDINGS if lines else CLEAN
    try:
        for name, content in files.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        raise CommandError(f"{directory}: {error.strerror}") from None
    return CLEAN


def _oldest_first(names: Sequence[str]) -> list[str]:
    return sorted(set(names), key=lambda name: [int(part) for part in re.findall(r"\d+", name)])


def _read(names: Sequence[str], directory: Path | None) -> list[Release]:
    from kproxy.schema_import.jars import ImportFailedError, fetch_jars, find_jars
    from kproxy.schema_import.release import read_release

    with ExitStack() as stack:
        try:
            if directory is None:
                jars = fetch_jars(names, Path(stack.enter_context(tempfile.TemporaryDirectory())))
            else:
                jars = find_jars(names, directory)
            return [read_release(name, jars[name]) for name in names]
        except ImportFailedError as error:
            raise CommandError(str(error)) from None


def _report(notes: Sequence[str], lines: Sequence[str], as_json: bool) -> None:
    import json

    if as_json:
        sys.stdout.write(json.dumps({"notes": notes, "changes": lines}) + "\n")
        return
    for note in notes:
        sys.stdout.write(f"note: {note}\n")
    for line in lines or ["no change"]:
        sys.stdout.write(f"{line}\n")
