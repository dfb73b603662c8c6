"""The Java client: `Habits.java` plays the variants in one JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.habits.table import BAD, FIXED, HABITS, JAVA, client_id
from tests.peers.kafka import RELEASES, class_path
from tests.peers.processes import dies_with_us
from tests.peers.toolchains import absent, cache

_SOURCE = Path(__file__).with_name("Habits.java")
_TIMEOUT_S = 150
#: The number of variants that run at the same time; they mostly wait.
AT_ONCE = 8


def missing_program() -> str | None:
    """Return why Java clients cannot run here, or None."""
    return absent("java", "javac", "mvn")


def start(bootstrap: str, habits: list[str], *, at_once: int = AT_ONCE) -> subprocess.Popen[str]:
    """Start to play both variants of each habit, `at_once` of them concurrently."""
    class_directory, classpath = cache() / "habits-java", class_path(RELEASES[0])
    compiler_command = ["javac", "-nowarn", "-Xlint:none", "-cp", classpath, "-d", str(class_directory), str(_SOURCE)]
    subprocess.run(compiler_command, check=True, timeout=120)
    names = [client_id(habit, variant, JAVA) for habit in habits if JAVA in HABITS[habit].clients
             for variant in (BAD, FIXED)]  # fmt: skip
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        "-cp",
        f"{class_directory}:{classpath}",
        "Habits",
        bootstrap,
        str(at_once),
        *names,
    ]
    return subprocess.Popen(
        dies_with_us(command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen[str]) -> None:
    """Wait until all variants have been played."""
    printed, _ = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0, printed
