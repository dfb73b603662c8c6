"""`kproxy schemas import` on tiny jars with stand-ins for Maven and Java, and on real ones."""

import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dissectors import schemas
from kproxy.cli import main

FACTS = {
    "apis": [{"key": 3, "name": "Cat", "min": 0, "max": 1, "stable": 1, "listeners": ["broker"],
              "headers": {"0": [1, 0], "1": [1, 0]}}],
    "errors": [{"code": 0, "name": "NONE", "retriable": False, "invalid_metadata": False}],
    "enums": {},
}  # fmt: skip
SERVED = {"apis": {"18": [0, 4], "3": [0, 1]}, "served": {"3": [1, 1]}, "features": {"tail.version": [0, 2, 1]}}
LEGS = {"name": "Legs", "type": "int32", "versions": "0+", "about": "How many."}
TAIL = {"name": "Tail", "type": "bool", "versions": "1+"}
REPORT = """\
~ releases: none -> 3.9.1, 4.4.0
+ API 3 Cat
+ message RequestHeader (header of kafka-clients, 0)
+ message CatRequest (request of kafka-clients, 0-1)
+ message TopicRecord (metadata of kafka-metadata, 0)
+ error 0 NONE
+ line 3.9 as of 3.9.1 (2 APIs, broker)
+ line 4.4 as of 4.4.0 (2 APIs, broker)
"""


def definition(name: str, kind: str, versions: str = "0", *fields: dict[str, Any], **properties: Any) -> str:
    source = {"name": name, "type": kind, "validVersions": versions, "flexibleVersions": "none", "fields": fields}
    return "// A licence.\n" + json.dumps({**source, **properties})


def write_jar(path: Path, **definitions: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("org/apache/kafka/Some.class", b"\xca\xfe\xba\xbe")
        archive.writestr("META-INF/other.json", "{}")
        for name, text in definitions.items():
            folder = "common/metadata" if name.endswith("Record") else "common/message"
            archive.writestr(f"{folder}/{name}.json", text)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A directory with the jars of two releases of a tiny Kafka."""
    directory = tmp_path / "jars" / "of kafka"
    directory.mkdir(parents=True)
    header = definition("RequestHeader", "header")
    topic = definition("TopicRecord", "metadata", apiKey=2)
    write_jar(directory / "slf4j-api-1.7.36.jar")
    old_request = definition("CatRequest", "request", "0", LEGS, apiKey=3)
    new_request = definition("CatRequest", "request", "0-1", LEGS, TAIL, apiKey=3)
    write_jar(directory / "kafka-clients-3.9.1.jar", RequestHeader=header, CatRequest=old_request)
    write_jar(directory / "kafka-clients-4.4.0.jar", RequestHeader=header, CatRequest=new_request)
    write_jar(directory / "kafka-metadata-4.4.0.jar", TopicRecord=topic)
    return directory


def write_program(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory at the front of PATH with a fake Java, which prints the facts and served APIs of the tiny Kafka."""
    directory = tmp_path / "bin"
    directory.mkdir()
    write_program(
        directory,
        "java",
        f"case $* in *Facts.java) echo '{json.dumps(FACTS)}';; *Served.java*) echo '{json.dumps(SERVED)}';; esac",
    )
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    return directory


def import_schemas(*arguments: str | Path) -> int:
    return main(["schemas", "import", *map(str, arguments)])


@pytest.mark.usefixtures("tools")
def test_writes_and_reports_the_merged_schemas(tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_schemas("4.4.0", "3.9.1", "--jars", jars.parent, "--output", tmp_path) == 0
    assert capsys.readouterr().out == REPORT
    cat = json.loads((tmp_path / "messages.jsonl").read_text().splitlines()[1])
    assert cat["served"] == {"3.9.1": "0", "4.4.0": "0-1"}
    assert cat["fields"] == [
        {"name": "Legs", "type": "int32", "versions": "0+"},
        {"name": "Tail", "type": "bool", "versions": "1+"},
    ]


@pytest.mark.usefixtures("tools")
def test_reimport_changes_nothing(tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("3.9.1", "4.4.0", "--jars", jars, "--output", tmp_path)
    import_schemas(*arguments)
    capsys.readouterr()
    assert import_schemas(*arguments, "--check") == 0
    assert capsys.readouterr().out == "no change\n"


@pytest.mark.usefixtures("tools")
def test_check_reports_changes_and_writes_nothing(
    tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert import_schemas("3.9.1", "4.4.0", "--jars", jars, "--output", tmp_path, "--check", "--json") == 1
    assert json.loads(capsys.readouterr().out) == {"notes": [], "changes": REPORT.splitlines()}
    assert not (tmp_path / "messages.jsonl").exists()


@pytest.mark.usefixtures("tools")
def test_import_of_lines_keeps_other_release_lines(
    tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_schemas("3.9.1", "4.4.0", "--jars", jars, "--output", tmp_path)
    (jars / "kafka-clients-3.2.3.jar").write_bytes(b"")
    (jars / "kafka-clients-4.4.1.jar").write_bytes(b"")
    capsys.readouterr()
    arguments = ("schemas", "lines", "4.4.1", "3.2.3", "--jars", str(jars), "--output", str(tmp_path))
    assert main([*arguments, "--check"]) == 1
    assert main([*arguments, "--json"]) == 0
    text_output, json_output = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert text_output.splitlines() == [
        "+ line 3.2 as of 3.2.3 (2 APIs, zk_broker)",
        "~ line 4.4: release 4.4.0 -> 4.4.1",
    ]
    assert json.loads(json_output) == {"notes": [], "changes": text_output.splitlines()}
    rows = json.loads((tmp_path / "lines.json").read_text())
    assert [(row["line"], row["release"], row["listener"]) for row in rows] == [
        ("3.2", "3.2.3", "zk_broker"),
        ("3.9", "3.9.1", "broker"),
        ("4.4", "4.4.1", "broker"),
    ]
    assert [*rows[0]["apis"]] == ["3", "18"]
    assert main(["schemas", "lines", "--check", "--jars", str(jars), "--output", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "no change\n"


@pytest.mark.usefixtures("tools")
def test_check_reports_files_with_a_different_encoding(
    tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("3.9.1", "4.4.0", "--jars", jars, "--output", tmp_path)
    import_schemas(*arguments)
    capsys.readouterr()
    (tmp_path / "errors.json").write_text(json.dumps(FACTS["errors"]))
    assert import_schemas(*arguments, "--check") == 1
    assert capsys.readouterr().out == "~ the file encoding differs\n"


def test_maven_fetches_the_available_jars_of_a_release(
    tmp_path: Path, tools: Path, jars: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached_failure = "org.apache.kafka:{}:jar:{} was not found in somewhere during a previous attempt"
    not_found = "Could not find artifact org.apache.kafka:{}:jar:{} in central (somewhere)"
    shell_function = 'pom=$5; wants() { grep -q "<artifactId>$1</artifactId><version>$2</version>" "$pom"; }'
    lines = [
        f"wants {component} {release} && echo '[ERROR] {sentence.format(component, release)}' && exit 1"
        for component in ("kafka-metadata", "kafka-raft", "kafka-storage", "kafka-streams", "kafka-server-common",
                          "kafka-group-coordinator", "kafka-share-coordinator", "kafka-transaction-coordinator")
        for release, sentence in (("3.9.1", cached_failure), ("4.4.0", not_found))
        if (component, release) != ("kafka-metadata", "4.4.0")
    ]  # fmt: skip
    copy_command = f"""for last; do :; done; cp '{jars}'/*.jar "${{last#-DoutputDirectory=}}" """
    write_program(tools, "mvn", "\n".join([shell_function, *lines, copy_command]))
    assert import_schemas("3.9.1", "4.4.0", "--output", tmp_path) == 0
    assert capsys.readouterr().out == REPORT


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (
            "echo '[ERROR] Could not find artifact org.apache.kafka:kafka-clients:jar:9.9.9 in central'; exit 1",
            "Maven cannot find kafka-clients 9.9.9: check the Kafka release",
        ),
        ("echo '[ERROR] Unknown host'; exit 1", "Maven cannot fetch the jars: [ERROR] Unknown host"),
        ("exit 3", "Maven cannot fetch the jars: status 3"),
    ],
)
def test_maven_failure_is_reported_in_one_sentence(
    tools: Path, capsys: pytest.CaptureFixture[str], script: str, sentence: str
) -> None:
    write_program(tools, "mvn", script)
    assert import_schemas("9.9.9") == 2
    assert capsys.readouterr().err == f"kproxy: {sentence}\n"


def test_reports_missing_maven_or_java(
    tools: Path, jars: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools / "java").unlink()
    monkeypatch.setenv("PATH", str(tools))
    assert (import_schemas("4.4.0"), import_schemas("4.4.0", "--jars", jars)) == (2, 2)
    assert capsys.readouterr().err.splitlines() == [
        "kproxy: mvn is not on PATH: install Maven, or use --jars DIR",
        "kproxy: java is not on PATH: install Java 17 or later",
    ]


def test_reports_missing_jars(jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_schemas("9.9.9", "--jars", jars) == 2
    (jars / "slf4j-api-1.7.36.jar").unlink()
    assert import_schemas("4.4.0", "--jars", jars) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"kproxy: {jars}: no kafka-clients-9.9.9.jar",
        f"kproxy: {jars}: no slf4j-api jar, which Kafka's classes need",
    ]


def test_reports_a_broken_jar(jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (jars / "kafka-clients-4.4.0.jar").write_bytes(b"no jar")
    assert import_schemas("4.4.0", "--jars", jars) == 2
    assert capsys.readouterr().err == f"kproxy: {jars}/kafka-clients-4.4.0.jar: File is not a zip file\n"


def test_reports_a_java_error(tools: Path, jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_program(tools, "java", "echo 'SLF4J: no logger' >&2; echo 'Facts.java:7: error: no ApiKeys' >&2; exit 1")
    assert import_schemas("4.4.0", "--jars", jars) == 2
    message = "Java cannot read the classes of 4.4.0: Facts.java:7: error: no ApiKeys"
    assert capsys.readouterr().err == f"kproxy: {message}\n"


@pytest.mark.usefixtures("tools")
def test_conflicting_definitions_are_reported_in_one_sentence(jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request_v5 = definition("CatRequest", "request", "5", LEGS, apiKey=3)
    write_jar(
        jars / "kafka-clients-4.4.0.jar", RequestHeader=definition("RequestHeader", "header"), CatRequest=request_v5
    )
    assert import_schemas("3.9.1", "4.4.0", "--jars", jars) == 2
    message = "the definitions cannot be merged: the versions of CatRequest have a hole: [0, 5]"
    assert capsys.readouterr().err == f"kproxy: {message}\n"


@pytest.mark.usefixtures("tools")
def test_reports_an_unwritable_output(tmp_path: Path, jars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_schemas("4.4.0", "--jars", jars, "--output", tmp_path / "nowhere") == 2
    assert capsys.readouterr().err == f"kproxy: {tmp_path}/nowhere: No such file or directory\n"


@pytest.mark.peers
@pytest.mark.skipif(not (shutil.which("mvn") and shutil.which("java")), reason="needs mvn and java on PATH")
def test_shipped_schemas_match_the_releases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert import_schemas(*schemas.releases(), "--output", tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "note: ReadShareGroupStateSummaryResponse v0 is encoded differently in 3.9.1 and in 4.4.0",
        "note: ShareGroupMetadataValue v0 is encoded differently in 3.9.1 and in 4.4.0",
    ]
    schema_directory = Path(schemas.__file__).parent
    for name in ("apis.json", "errors.json", "enums.json"):
        assert (tmp_path / name).read_bytes() == (schema_directory / name).read_bytes(), name
    imported, shipped_messages = (
        [json.loads(line) for line in (directory / "messages.jsonl").read_text().splitlines()]
        for directory in (tmp_path, schema_directory)
    )
    for message, shipped_message in zip(imported, shipped_messages, strict=True):
        # A repository may lack the jar of a component for one of the releases, e.g. kafka-streams 4.4.0.
        assert message.pop("served").items() <= shipped_message.pop("served").items(), message["name"]
        assert message == shipped_message
    rows = {*(schema_directory / "lines.json").read_text().replace("}},\n", "}}\n").splitlines()}
    assert {*(tmp_path / "lines.json").read_text().replace("}},\n", "}}\n").splitlines()} <= rows


@pytest.mark.peers
@pytest.mark.skipif(not (shutil.which("mvn") and shutil.which("java")), reason="needs mvn and java on PATH")
@pytest.mark.skipif("KPROXY_ALL_VERSIONS" not in os.environ, reason="old releases do not change; takes a minute")
def test_shipped_release_lines_match_the_releases(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas", "lines", "--check"]) == 0
    assert capsys.readouterr().out == "no change\n"
