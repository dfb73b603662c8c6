"""The integration suite of rskafka, from the crate: rskafka alone, and together with librdkafka and the Java client.

Its tests of TLS and SOCKS5 are not compiled. Its test of SASL counts as skipped: it passes without doing anything
because no listener has SASL.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from tests.peers.processes import dies_with_us
from tests.peers.toolchains import RUST, cache

VERSION = "0.6.0"
FILES = ("client", "consumer", "produce_consume", "producer")
SKIPPED = frozenset({"test_sasl"})
#: Changes to the versions in the Cargo.lock of the crate: rsasl 2.2.0 does not compile with Rust 1.95.
UPDATES = {"rsasl": "2.3.1"}
FILE_SECONDS = 180


def run(bootstrap: str, directory: Path, *, timeout: float) -> dict[str, str]:
    """Run the suite; return the outcome of each test.

    Args:
        bootstrap: HOST:PORT.
        directory: The directory for the output.
        timeout: The time limit; each file has `FILE_SECONDS`, since the Java client's tests can wait forever.
    """
    environment = {"TEST_INTEGRATION": "1", "TEST_BROKER_IMPL": "kafka", "TEST_JAVA_INTEROPT": "1"}
    environment |= {"KAFKA_CONNECT": bootstrap}
    deadline = time.monotonic() + timeout
    outcomes: dict[str, str] = {}
    for name, program in _programs().items():
        test_names = subprocess.run([str(program), "--list"], check=True, capture_output=True, text=True).stdout
        outcomes |= dict.fromkeys(re.findall(r"^(\w+): test$", test_names, re.MULTILINE), "did not end")
        printed = directory / f"{name}.txt"
        with printed.open("wb") as output, contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                dies_with_us([str(program)]),
                cwd=directory, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                timeout=min(FILE_SECONDS, deadline - time.monotonic()),
            )  # fmt: skip
        text = printed.read_text(errors="replace")
        matches = re.findall(r"^test (\w+) \.\.\. .*?(ok|FAILED|ignored)$", text, re.MULTILINE)
        outcomes |= {test: {"ok": "passed"}.get(outcome, outcome) for test, outcome in matches}
    return {test: "skipped" if test in SKIPPED else outcome for test, outcome in outcomes.items()}


def _programs() -> dict[str, Path]:
    """Return the compiled tests, by the name of their file."""
    root = cache() / f"rskafka-{VERSION}"
    if not root.exists():
        _unpack(root)
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", *(f"--test={name}" for name in FILES)]
    without_debug_info = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_PROFILE_TEST_DEBUG": "0"}
    build = subprocess.run(
        command, cwd=root, env=os.environ | without_debug_info, check=True, capture_output=True, text=True, timeout=1800
    )
    messages = [json.loads(line) for line in build.stdout.splitlines()]
    jars = root / "target" / "debug" / "jassets"  # where the tests look before they fetch jars
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    subprocess.run(["mvn", "-q", "-B", "-f", RUST / "pom.xml", *goal], check=True, capture_output=True, timeout=600)
    return {message["target"]["name"]: Path(message["executable"]) for message in messages if message.get("executable")}


def _unpack(root: Path) -> None:
    """Copy the crate from the cache of cargo, which has checked its hash."""
    manifest = RUST / "Cargo.toml"
    partial_directory = root.with_suffix(".part")
    shutil.rmtree(partial_directory, ignore_errors=True)
    package_directory = root.parent / "rskafka-fetched"
    shutil.copytree(RUST, package_directory, dirs_exist_ok=True)
    command = ["cargo", "metadata", "--format-version=1", f"--manifest-path={package_directory / manifest.name}"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout)
    [source] = [Path(package["manifest_path"]).parent for package in listed["packages"] if package["name"] == "rskafka"]
    shutil.copytree(source, partial_directory)
    (partial_directory / "rust-toolchain.toml").unlink()  # use the installed Rust
    for crate, version in UPDATES.items():
        update = ["cargo", "update", crate, "--precise", version]
        subprocess.run(update, cwd=partial_directory, check=True, capture_output=True, timeout=600)
    partial_directory.rename(root)
