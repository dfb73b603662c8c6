"""`kproxy schemas`: regenerates the protocol data from Kafka releases (for developers)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kproxy.cli import options
from kproxy.errors import CLEAN, FINDINGS, UserError
from kproxy.escaping import terminal
from kproxy.outputs import exit_statuses

if TYPE_CHECKING:
    from dissectors.schemas.importer.lines import Row

#: The files by name, the notes to review, and the changes.
_Result: TypeAlias = tuple[dict[str, bytes], list[str], list[str]]

HELP = "regenerate the protocol data from Kafka releases"

_LINES_HELP = "regenerate the API versions that brokers of each Kafka release advertise"

_EXAMPLES = """
Name every release whose versions kproxy should know: the data is their union, and nothing else. Read the report before
you commit the data; a "note" marks versions that differ between releases. The API versions that brokers of these
releases advertise are imported too, as with "kproxy schemas lines".

examples:
  kproxy schemas import 3.9.1 4.4.0
  kproxy schemas import 3.9.1 4.4.0 --jars ~/.m2/repository
  kproxy schemas import --check                 # check the releases in the data, write nothing
"""
_LINES_EXAMPLES = """
A release replaces other releases of its line (4.4.1 replaces 4.4.0). Lines that are not named stay unchanged.

examples:
  kproxy schemas lines 2.8.2
  kproxy schemas lines --check                  # check the releases in the data, write nothing
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, description, examples, run_import in (
        ("import", HELP, _EXAMPLES, _import_messages),
        ("lines", _LINES_HELP, _LINES_EXAMPLES, _import_lines),
    ):
        child = actions.add_parser(
            name, help=description, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        child.add_argument(
            "releases", nargs="*", metavar="RELEASE", help="e.g. 3.9.1 4.4.0 (default: the releases in the data)"
        )
        options.set_completion(
            child.add_argument(
                "--jars", type=Path, metavar="DIR", help="directory with the jars (default: download with Maven)"
            ),
            options.DIRECTORY,
        )
        options.set_completion(
            child.add_argument(
                "--output", type=Path, metavar="DIR", help="where to write (default: dissectors/schemas)"
            ),
            options.DIRECTORY,
        )
        child.add_argument("--check", action="store_true", help="report what would change, write nothing")
        child.add_argument(
            "--json", action="store_true", help='print one JSON object: {"notes": [...], "changes": [...]}'
        )
        child.epilog = examples + exit_statuses.sentence("schemas")
        child.set_defaults(run_import=run_import)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    from dissectors import schemas
    from dissectors.schemas.importer.data import FILES
    from dissectors.schemas.importer.lines import LINES

    directory = args.output or Path(schemas.__file__).parent
    current_files = {name: _read_if_present(directory / name) for name in (*FILES, LINES)}
    files, notes, change_lines = args.run_import(args.releases, args.jars, current_files)
    if not change_lines and any(current_files[name] != content for name, content in files.items()):
        change_lines = ["~ the file encoding differs"]
    _report(notes, change_lines, args.json)
    if args.check:
        return FINDINGS if change_lines else CLEAN
    try:
        for name, content in files.items():
            (directory / name).write_bytes(content)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}") from None
    return CLEAN


def _read_if_present(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _import_messages(release_names: Sequence[str], jars: Path | None, current_files: Mapping[str, bytes]) -> _Result:
    """Import the message schemas of releases, and the API versions that their brokers advertise."""
    from dissectors import schemas
    from dissectors.schemas.importer.data import FILES, SchemaData, merge_releases
    from dissectors.schemas.importer.report import changes
    from kproxy.schema_import.jars import COMPONENTS
    from kproxy.schema_import.release import advertised_versions_row, read_release

    with _open_jars(release_names or schemas.releases(), jars, COMPONENTS) as jars_by_release:
        releases = [read_release(name, release_jars) for name, release_jars in jars_by_release.items()]
        rows = [advertised_versions_row(name, release_jars) for name, release_jars in jars_by_release.items()]
    try:
        imported, notes = merge_releases(releases)
    except ValueError as error:
        raise UserError(f"the definitions cannot be merged: {error}") from None
    old_data = (
        SchemaData.parse(current_files)
        if all(current_files[name] for name in FILES)
        else SchemaData({}, {}, {}, {}, {})
    )
    files, change_lines = _merge_lines(rows, current_files)
    return {**imported.files(), **files}, notes, changes(old_data, imported) + change_lines


def _import_lines(release_names: Sequence[str], jars: Path | None, current_files: Mapping[str, bytes]) -> _Result:
    """Import the API versions that brokers of the releases advertise."""
    from dissectors.schemas.importer import lines
    from kproxy.schema_import.jars import BROKER_COMPONENTS
    from kproxy.schema_import.release import advertised_versions_row

    imported_releases = [row["release"] for row in lines.parse(current_files[lines.LINES])]
    with _open_jars(release_names or imported_releases, jars, BROKER_COMPONENTS) as jars_by_release:
        rows = [advertised_versions_row(name, release_jars) for name, release_jars in jars_by_release.items()]
    files, change_lines = _merge_lines(rows, current_files)
    return files, [], change_lines


def _merge_lines(rows: Sequence[Row], current_files: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
    from dissectors.schemas.importer import lines

    old_rows = lines.parse(current_files[lines.LINES])
    merged_rows = lines.merge_rows(old_rows, rows)
    return {lines.LINES: lines.content(merged_rows)}, [*lines.changes(old_rows, merged_rows)]


@contextmanager
def _open_jars(
    names: Sequence[str], directory: Path | None, components: Sequence[str]
) -> Iterator[dict[str, dict[str, Path]]]:
    """Yield the jars of each release by component, the oldest release first."""
    from dissectors.schemas.importer.lines import numbers
    from kproxy.schema_import.jars import fetch_jars, find_jars

    oldest_first = sorted(set(names), key=numbers)
    with ExitStack() as stack:
        if directory is None:
            temporary = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            yield fetch_jars(oldest_first, temporary, components)
        else:
            yield find_jars(oldest_first, directory)


def _report(notes: Sequence[str], lines: Sequence[str], as_json: bool) -> None:
    import json

    if as_json:
        sys.stdout.write(json.dumps({"notes": notes, "changes": lines}) + "\n")
        return
    for note in notes:
        sys.stdout.write(f"note: {terminal(note)}\n")
    for line in lines or ["no change"]:
        sys.stdout.write(f"{terminal(line)}\n")
