"""Speed of kproxy if the modules that every frame passes through are compiled with mypyc; an experiment.

    pip install 'mypy[mypyc]'      # and a C compiler
    PYTHONPATH=. python benchmarks/compiled.py [ROUNDS]

Copies the packages to a temporary directory, changes what mypyc cannot compile well, compiles (some minutes of CPU
time), and runs each work with both copies in turns. The least CPU time of each counts, with the start of Python. The
output of both must be the same bytes; it is compared first.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE = Path(__file__).resolve().parent.parent
MODULES: Final = {
    "dissectors/connections": "connection events framing resync",
    "dissectors/embedded": "locations",
    "dissectors/groups": "consumer_groups lanes lifecycle unanswered",
    "dissectors/messages": "message summary",
    "dissectors/records": "checks control formats record_checks summary",
    "dissectors/rules": "__init__",
    "dissectors/trackers": "__init__ answered_apis deadlines fetches in_flight members partitions producers "
    "record_data state stored_batches triggers versions",
    "dissectors/wire": "decode layout plausibility primitives",
    "kproxy/capture": "containers flows kafka_flows lines links packet reassembly tcp",
    "kproxy/cli": "dissect_input",
    "kproxy/control": "summary",
    "kproxy/counting": "in_flight",
    "kproxy/groups": "overview",
    "kproxy/inspection": "frame_lines inspected_connection inspector stall_lines",
    "kproxy/live": "message_inspection progress sink",
    "kproxy/outputs": "coverage finding_selection line_outputs output rate_limit run_summary text text_lines",
    "kproxy/proxy": "tap_messages tap_protocol",
    "kproxy/trace": "encoding timestamps writer",
}
#: mypyc's integers do not become floats, it checks types at run time, and it evaluates the start of a slice twice.
EDITS: Final = (
    ("dissectors/trackers/deadlines.py", r"\bfloat = math\.inf", "int = 1 << 63"),
    ("dissectors/trackers/deadlines.py", r"\bmath\.inf", "1 << 63"),
    ("dissectors/records/control.py", r"records: bytes\)", "records: bytes | memoryview)"),
    ("kproxy/trace/writer.py", r"( +)view = view\[(os\.write\(.*\)) :\]", r"\1written = \2\n\1view = view[written:]"),
    # Attributes of named tuples are looked up, those of native classes are not.
    ("dissectors/trackers/record_data.py", r"class PartitionData\(NamedTuple\)", "@dataclass\nclass PartitionData"),
    ("dissectors/trackers/in_flight.py", r"class Answered\(NamedTuple\)", "@dataclass\nclass Answered"),
    ("kproxy/proxy/tap_messages.py", r"class TapData\(NamedTuple\)", "@dataclass\nclass TapData"),
)


def compile_copy(tree: Path) -> None:
    """Change and compile the modules of a copy of the packages."""
    from native_classes import native  # beside this file

    for name, old, new in EDITS:
        path = tree / name
        text, count = re.subn(old, new, path.read_text())
        if not count:
            raise SystemExit(f"{name} has changed: {old} is not in it; correct EDITS in {__file__}")
        path.write_text(text)
    names = [f"{folder}/{name}.py" for folder, found in MODULES.items() for name in found.split()]
    for name in names:
        (tree / name).write_text(native((tree / name).read_text()))
    command = [sys.executable, "-m", "mypyc", "--config-file", str(HERE / "pyproject.toml"), "--no-warn-unused-ignores"]
    done = subprocess.run(
        [*command, *names], cwd=tree, env=os.environ | {"MYPYC_OPT_LEVEL": "2"}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"mypyc failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def write_tap(path: Path, exchanges: int) -> None:
    """Write what the relay sends to the inspector: a producer writes records of 1 KB, and a consumer reads them."""
    from dissectors.connections.events import Direction
    from dissectors.records import encode
    from kproxy.proxy import tap_messages, tap_protocol
    from tests.kproxy.frames import request, response

    at, name = 1_750_000_000 * 10**9, "orders"
    out = [tap_protocol.encode_hello(tap_messages.Hello(at, "node", 1, [], at))]
    for client in (0, 1):
        opened = tap_messages.Open(client, at, f"10.0.0.2:{client}", "10.0.0.1:9092", "", False)
        out.append(tap_protocol.encode_open(opened))
    for number in range(exchanges):
        record = {"value": bytes([number % 251]) * 1024, "timestamp": at // 1_000_000}
        sent, stored = (encode([{"base_offset": base, "records": [record]}]) for base in (0, number))
        topic = {"name": name, "partition_data": [{"index": 0, "records": sent}]}
        answer = {"name": name, "partition_responses": [{"index": 0, "base_offset": number}]}
        wanted = {"topic": name, "partitions": [{"fetch_offset": number, "partition_max_bytes": 1 << 20}]}
        data = {"topic": name, "partitions": [{"high_watermark": number + 1, "records": stored}]}
        for client, direction, frame in (
            (0, Direction.REQUEST, request("Produce", 9, {"acks": -1, "topic_data": [topic]}, correlation_id=number)),
            (0, Direction.RESPONSE, response("Produce", 9, {"responses": [answer]}, correlation_id=number)),
            (1, Direction.REQUEST, request("Fetch", 12, {"topics": [wanted]}, correlation_id=number)),
            (1, Direction.RESPONSE, response("Fetch", 12, {"responses": [data]}, correlation_id=number)),
        ):
            at += 50_000
            out += [tap_protocol.encode_data_head(client, direction, at, len(frame)), frame]
    path.write_bytes(b"".join(out))


def inspect(tap: Path) -> None:
    """Do the work of the inspector's process; write the trace to standard output."""
    from kproxy.live.sink import InspectionSink, InspectorOptions
    from kproxy.outputs.finding_selection import Selection
    from kproxy.outputs.line_outputs import OutputOptions
    from kproxy.proxy.tap_protocol import TapDecoder
    from kproxy.trace.lines import Detail

    decoder, data = TapDecoder(), tap.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        options = InspectorOptions(OutputOptions(quiet=True), Selection(), Detail.SUMMARY, Path(folder))
        hello, *messages = decoder.receive_data(data[: 1 << 16])
        sink = InspectionSink(options, hello, selectors.DefaultSelector())
        for start in range(1 << 16, len(data) + (1 << 16), 1 << 16):
            for message in messages:
                sink.observe(message)
            sink.flush()
            messages = decoder.receive_data(data[start : start + (1 << 16)])
        sink.close()
        for path in sorted(each for each in Path(folder).rglob("*") if each.is_file()):
            sys.stdout.buffer.write(path.read_bytes())


def run(tree: Path, words: list[str], output: Path) -> float:
    """CPU seconds of a Python program that runs with the packages in `tree`."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    with output.open("wb") as file, Path(os.devnull).open("wb") as nowhere:
        process = subprocess.Popen([sys.executable, "-P", *words], stdout=file, stderr=nowhere, env=environment)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} of {tree} ended with status {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Compile, compare the output of each work, then measure."""
    from capture import make_small_frames  # beside this file

    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trees = {"Python": folder / "python", "compiled": folder / "compiled"}
        for tree in trees.values():
            for package in ("dissectors", "kproxy"):
                shutil.copytree(HERE / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
        compile_copy(trees["compiled"])
        make_small_frames(folder / "small.pcap", 20_000)
        write_tap(folder / "tap", 8_000)
        captures = sorted(map(str, HERE.glob("tests/data/pcap/*.pcap.gz")))
        works = {
            "start (--version)": ["-m", "kproxy", "--version"],
            "captures of clients": [
                "-m",
                "kproxy",
                "dissect",
                "--json",
                "--detail",
                "full",
                "--fail-on",
                "never",
                *captures,
            ],
            "60,048 small packets": ["-m", "kproxy", "dissect", "--json", str(folder / "small.pcap")],
            "inspector, 32,000 frames": [__file__, "inspect", str(folder / "tap")],
        }
        for work, words in works.items():
            best = dict.fromkeys(trees, float("inf"))
            for _ in range(rounds):
                for kind, tree in trees.items():
                    best[kind] = min(best[kind], run(tree, words, folder / f"{kind}.out"))
            same = (folder / "Python.out").read_bytes() == (folder / "compiled.out").read_bytes()
            figures = ", ".join(f"{kind} {seconds:.2f} CPU s" for kind, seconds in best.items())
            ratio = f"{best['Python'] / best['compiled']:.2f} times as fast"
            print(f"{work:>24}: {figures}, {ratio}, {'same' if same else 'DIFFERENT'} output", flush=True)


if __name__ == "__main__":
    inspect(Path(sys.argv[2])) if sys.argv[1:2] == ["inspect"] else main()
