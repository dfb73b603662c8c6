"""Finds the jars of Kafka releases in a directory, or fetches them with Maven."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dissectors.schemas.importer.lines import numbers
from kproxy.errors import UserError

#: Jars with message definitions, or with enums that `Facts.java` reads. Not every release has all of them.
COMPONENTS = (
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-metadata",
    "kafka-raft",
    "kafka-server-common",
    "kafka-share-coordinator",
    "kafka-storage",
    "kafka-streams",
    "kafka-transaction-coordinator",
)
#: Jars that `Served.java` reads.
BROKER_COMPONENTS = ("kafka-clients", "kafka-server-common")
#: The first release with this component. Maven ends at the first missing jar, so each one costs a run of it.
_FIRST_RELEASES = {"kafka-server-common": (3, 0)}
_LOGGING = ("slf4j-api", "1.7.36")  # Kafka's classes do not load without it
_GROUPS = {"slf4j-api": "org.slf4j"}
_ABSENT = re.compile(r"org\.apache\.kafka:([\w-]+):jar:([\w.-]+) (?:was not found )?in ")
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>kproxy</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <build><plugins><plugin>
    <groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>3.6.1</version>
    <configuration><artifactItems>{items}</artifactItems></configuration>
  </plugin></plugins></build>
</project>
"""
_ITEM = "<artifactItem><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></artifactItem>"


def find_jars(releases: Sequence[str], directory: Path) -> dict[str, dict[str, Path]]:
    """Return the jars of each release in a directory tree, e.g. Maven's local repository, by component.

    Raises:
        UserError: The jar of slf4j, or of a release's kafka-clients, is missing.
    """
    jars = {path.name: path for path in sorted(directory.rglob("*.jar"))}
    logging_jars = [path for name, path in jars.items() if name.startswith("slf4j-api-")]
    if not logging_jars:
        raise UserError(f"{directory}: no slf4j-api jar, which Kafka's classes need")
    by_release: dict[str, dict[str, Path]] = {}
    for release in releases:
        names = {component: f"{component}-{release}.jar" for component in COMPONENTS}
        by_release[release] = {component: jars[name] for component, name in names.items() if name in jars}
        if "kafka-clients" not in by_release[release]:
            raise UserError(f"{directory}: no {names['kafka-clients']}")
        by_release[release]["slf4j-api"] = logging_jars[-1]
    return by_release


def fetch_jars(
    releases: Sequence[str], directory: Path, components: Sequence[str] = COMPONENTS
) -> dict[str, dict[str, Path]]:
    """Copy the jars of the releases to a directory with Maven, and return them as `find_jars` does.

    Raises:
        UserError: Maven is missing, the network fails, or a release does not exist.
    """
    artifacts = {_LOGGING}
    for release in releases:
        artifacts |= {(name, release) for name in components if numbers(release) >= _FIRST_RELEASES.get(name, ())}
    while missing := _copy_artifacts(sorted(artifacts), directory):
        if missing[0] == "kafka-clients" or missing not in artifacts:
            raise UserError(f"Maven cannot find {missing[0]} {missing[1]}: check the Kafka release")
        artifacts.remove(missing)
    return find_jars(releases, directory)


def _copy_artifacts(artifacts: Sequence[tuple[str, str]], directory: Path) -> tuple[str, str] | None:
    """Copy all artifacts. Return the first one that the repositories do not have, None if all were copied."""
    items = "".join(_ITEM.format(_GROUPS.get(name, "org.apache.kafka"), name, version) for name, version in artifacts)
    with tempfile.TemporaryDirectory() as temporary:
        pom = Path(temporary, "pom.xml")
        pom.write_text(_POM.format(items=items), encoding="utf-8")
        goal = ["dependency:copy", f"-DoutputDirectory={directory.absolute()}"]
        try:
            process = subprocess.run(  # noqa: S603
                ["mvn", "-B", "-q", "-f", str(pom), *goal], capture_output=True, text=True, check=False  # noqa: S607
            )  # fmt: skip
        except FileNotFoundError:
            raise UserError("mvn is not on PATH: install Maven, or use --jars DIR") from None
    if process.returncode == 0:
        return None
    missing = _ABSENT.search(process.stdout)
    if missing is None:
        output = next(iter(process.stdout.strip().splitlines()), f"status {process.returncode}")
        raise UserError(f"Maven cannot fetch the jars: {output}")
    return missing[1], missing[2]
