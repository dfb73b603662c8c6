"""Reads one Kafka release from its jars: message definitions, and the versions that its brokers serve."""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dissectors.schemas.importer import lines
from dissectors.schemas.importer.data import Release
from kproxy.errors import UserError

_DEFINITION = re.compile(r"(?:common/)?(?:message|metadata)/\w+\.json")


def read_release(name: str, jars: Mapping[str, Path]) -> Release:
    """Return a release: the message definitions in the jars, and facts from their classes.

    Raises:
        UserError: A jar cannot be read, or Java does not run.
    """
    definitions = [(component, text) for component, jar in jars.items() for text in _definitions(jar)]
    return Release(name, definitions, _run_java("Facts.java", name, jars))


def advertised_versions_row(name: str, jars: Mapping[str, Path]) -> lines.Row:
    """Return the versions that a broker of a release advertises, as the row for its release line.

    Raises:
        UserError: Java does not run, or cannot read the classes.
    """
    return lines.row(name, _run_java("Served.java", name, jars, lines.listener(name).upper()))


def _definitions(jar: Path) -> list[str]:
    try:
        with zipfile.ZipFile(jar) as archive:
            names = sorted(filter(_DEFINITION.fullmatch, archive.namelist()))
            return [archive.read(name).decode() for name in names]
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{jar}: {error}") from None


def _run_java(program: str, release: str, jars: Mapping[str, Path], *arguments: str) -> dict[str, Any]:
    path = os.pathsep.join(map(str, jars.values()))
    command = ["java", "-cp", path, str(Path(__file__).with_name(program)), *arguments]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError:
        raise UserError("java is not on PATH: install Java 17 or later") from None
    if process.returncode:
        output = next((line for line in process.stderr.splitlines() if not line.startswith("SLF4J")), "")
        raise UserError(f"Java cannot read the classes of {release}: {output or f'status {process.returncode}'}")
    facts: dict[str, Any] = json.loads(process.stdout)
    return facts
