"""Each test file has the same path as the module that it tests, or is listed as a test of several modules."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Final

TESTS: Final = Path(__file__).parent
ROOT: Final = TESTS.parent
FILES: Final = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))

#: Directories whose tests are not about single modules; tests/README.md describes each directory.
SUITES: Final = {"chaos", "faults", "fuzz", "growth", "habits", "museum", "peers"}
#: All other files, except those directly in tests/, which are about documents, names and CI.
MODULE_TESTS: Final = [file for file in FILES if len(file.parts) > 1 and file.parts[0] not in SUITES]

#: Files that test a behaviour across modules, by directory.
STORIES: Final = {
    # dissectors as a whole: frames written by Kafka, arbitrary bytes, and the public names.
    "dissectors": "corpus properties public_core",
    "dissectors/connections": "chunking client_identity holes",
    "dissectors/diagnosis": "hostile independent one_element one_entry schema_wide",
    "dissectors/edits": "apply round_trip scopes",
    "dissectors/embedded": "cut_trees doubled many_records real_frames secrets topics",
    "dissectors/groups": "real_groups",
    # Several rules of one family or subject, and properties of all rules.
    "dissectors/rules": "advertised causes claims_and_epochs coordinator_rules fetch_rules half_seen inner_layouts "
    "member_rules needs pages producer_rules rebootstrap streams_groups waits_and_offsets",
    "dissectors/values": "hostile_schemas serializers",
    # Whole captures through all modules, every output, and the dependencies.
    "kproxy": "bug_captures dependencies escaped_outputs lines right_traffic story_captures summed_up withheld",
    # Requests sent to the built-in broker through a socket.
    "kproxy/broker": "connect every_api hostile hostile_data like_each_release long_arrays offsets python releases "
    "secure_and_transactional_watched",
    "kproxy/broker/groups": "migration offset_requests requests",
    "kproxy/broker/security": "leave mechanisms tls users",
    "kproxy/broker/storage": "full_disk killed",
    "kproxy/broker/transactions": "requests undeclared_writes",
    "kproxy/browse": "hostile marked_rows",
    "kproxy/browse/sources": "progress",
    "kproxy/capture": "real_captures",
    # The command line as users run it.
    "kproxy/cli": "broker broker_tls captures descriptors fields findings hostile_traces http live_payloads lost_trace "
    "main payloads registry_login restart rule_limits sasl_secrets several_files story_frames streams stuck_inspector",
    # Real proxies with a control socket, and the page about it.
    "kproxy/control": "docs opened watching",
    "kproxy/html": "palette",
    # Lines of the inspector that depend on several modules.
    "kproxy/inspection": "client_identity concerned_requests full_bodies internal_errors masked_records principals "
    "record_offsets",
    # Several components of a live proxy.
    "kproxy/live": "encodings findings_of_workers lost_lines quiet_terminal several_inspectors still_waiting",
    "kproxy/proxy": "advertise reconfigure tapped_relay",
    # Commands, both engines, the example notebook and DAG, and a fleet with planted problems.
    "kproxy/spark": "analyze analyze_anomalies choice elsewhere engines examples imports planted scheduling shared",
    "kproxy/spark/report": "command",
    "kproxy/spark/streaming": "following",
    "kproxy/testing": "inspected",
    "kproxy/tui": "bugs filters hostile live",
    "kproxy/web": "command",
}
KNOWN: Final = {
    PurePath(directory, f"test_{name}.py") for directory, names in STORIES.items() for name in names.split()
}


def find_subject(file: PurePath) -> PurePath | None:
    """Return the module or package that a file tests, according to its name (maybe with an aspect) or its directory.

    tests/kproxy/capture/test_tcp.py and test_tcp_properties.py are about kproxy/capture/tcp.py, and
    tests/kproxy/probe/test_probe.py is about kproxy/probe.
    """
    words = file.stem.split("_")[1:]
    candidates = [file.parent / "_".join(words[:number]) for number in range(len(words), 0, -1)]
    if "_".join(words) == file.parent.name:
        candidates.append(file.parent)
    return next((path for path in candidates if is_module(path)), None)


def is_module(module: PurePath) -> bool:
    return (ROOT / module).with_suffix(".py").is_file() or any((ROOT / module).glob("*.py"))


def find_problem(file: PurePath) -> str | None:
    """Return a sentence if the path of a file is wrong or if STORIES lists the file needlessly, else None."""
    subject = find_subject(file)
    if subject is None and file not in KNOWN:
        return (
            f"tests/{file} has the path of no module or package: move it to the path of the module that it tests, "
            "or add its name to STORIES in tests/test_test_files.py if it tests several."
        )
    if subject is not None and file in KNOWN:
        return f"tests/{file} has the path of {subject}: remove its name from STORIES in tests/test_test_files.py."
    return None


def test_each_file_has_the_path_of_its_module_or_is_listed() -> None:
    assert len(MODULE_TESTS) > 400
    assert [sentence for file in MODULE_TESTS if (sentence := find_problem(file))] == []


def test_file_without_a_module_is_reported() -> None:
    sentence = find_problem(PurePath("kproxy/tui/test_nothing_like_it.py"))
    assert sentence is not None
    assert sentence.startswith("tests/kproxy/tui/test_nothing_like_it.py has the path of no module or package: move it")


def test_each_listed_file_exists() -> None:
    assert sorted(KNOWN - set(FILES)) == []
    assert {file.parts[0] for file in FILES} >= SUITES


def test_each_directory_mirrors_a_package() -> None:
    directories = {file.parent for file in MODULE_TESTS}
    assert [str(directory) for directory in sorted(directories) if not (ROOT / directory).is_dir()] == []


def test_subject_is_found_for_an_aspect_and_for_a_whole_package() -> None:
    assert find_subject(PurePath("kproxy/capture/test_tcp_properties.py")) == PurePath("kproxy/capture/tcp")
    assert find_subject(PurePath("kproxy/probe/test_probe.py")) == PurePath("kproxy/probe")
    assert find_subject(PurePath("kproxy/spark/report/test_pages.py")) == PurePath("kproxy/spark/report/pages")
