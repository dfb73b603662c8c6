"""The scripts of `kproxy completion`, run by their shells."""

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kproxy.cli.conftest import Run

#: The words of a command line, and the expected completions of the last word.
CASES = [
    (["dis"], ["dissect"]),
    (["--strict"], ["--strict-trace"]),
    (["--listen", "9092", "--detail", ""], ["summary", "full", "raw"]),
    (["dissect", "--findi"], ["--findings"]),
    (["dissect", "--format", "s"], ["sarif"]),
    (["schemas", "im"], ["import"]),
    (["completion", ""], ["bash", "zsh", "fish"]),
    (["send", "localhost:1", "FindC"], ["FindCoordinator"]),
    (["send", "localhost:1", "FindCoordinator", "coo"], ["coordinator_keys="]),
    (["send", "localhost:1", "Fetch:11", "topics.partitions.fe"], ["topics.partitions.fetch_offset="]),
]


def write_script(kproxy: Run, shell: str, tmp_path: Path) -> Path:
    """Write the completion script of a shell; skip the test if the shell is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell} on PATH")
    result = kproxy("completion", shell)
    assert (result.returncode, result.stderr) == (0, "")
    path = tmp_path / f"_kproxy.{shell}"
    path.write_text(result.stdout)
    return path


def _environment(**variables: str) -> dict[str, str]:
    """Return an environment that runs this `kproxy`, because completing words of `kproxy send` runs it."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}


_BASH = """
source "$1"; shift
function=$(complete -p kproxy | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
COMP_WORDS=(kproxy "$@"); COMP_CWORD=$#; COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
"$function" kproxy "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.slow
def test_bash_completes_words(kproxy: Run, tmp_path: Path) -> None:
    path = write_script(kproxy, "bash", tmp_path)
    (tmp_path / "seen.pcap").touch()
    (tmp_path / "traces").mkdir()
    files = (["dissect", f"{tmp_path}/se"], [f"{tmp_path}/seen.pcap"])
    directories = (["--trace", f"{tmp_path}/"], [f"{tmp_path}/traces"])
    for words, expected in (*CASES, files, directories):
        command = ["bash", "--norc", "-c", _BASH, "bash", path, *words]
        result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=_environment())
        assert (result.stdout.split(), result.stderr) == (expected, ""), words


@pytest.mark.slow
def test_fish_completes_words(kproxy: Run, tmp_path: Path) -> None:
    path = write_script(kproxy, "fish", tmp_path)
    for words, expected in CASES:
        command = f'source {path}; complete -C "kproxy {" ".join(words)}"'
        result = subprocess.run(
            ["fish", "--no-config", "-c", command],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=_environment(),
        )
        assert sorted(line.split("\t")[0] for line in result.stdout.splitlines()) == sorted(expected), words


@pytest.mark.slow
def test_zsh_completes_words(kproxy: Run, tmp_path: Path) -> None:
    path = write_script(kproxy, "zsh", tmp_path)
    path.rename(tmp_path / "_kproxy")
    (tmp_path / ".zshrc").write_text(
        f"PS1='> '; unsetopt beep zle_bracketed_paste\nfpath=({tmp_path} $fpath)\nautoload -Uz compinit\n"
        f"compinit -u -d {tmp_path}/dump\nkproxy() {{ print -l -- got:$^@ }}\nprint ready\n"
    )
    for words, expected in CASES:
        if len(expected) == 1:  # with several completions, zsh lists them and does not change the line
            assert prints_after_typing(tmp_path, f"kproxy {' '.join(words)}\t\n", f"got:{expected[0]}")


def prints_after_typing(home: Path, keys: str, expected: str) -> bool:
    """Return whether an interactive zsh prints the expected text after these keys."""
    environment = _environment(ZDOTDIR=str(home), TERM="dumb")
    terminal, zsh_terminal = os.openpty()
    process = subprocess.Popen(
        ["zsh", "-i"], stdin=zsh_terminal, stdout=zsh_terminal, stderr=zsh_terminal, env=environment
    )
    os.close(zsh_terminal)
    output, is_sent, deadline = b"", False, time.monotonic() + 60
    try:
        while expected.encode() not in output and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                output += os.read(terminal, 65536)
            if not is_sent and b"ready" in output and b"> " in output:
                os.write(terminal, keys.encode())
                is_sent = True
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    return expected.encode() in output


def test_rejects_an_unknown_shell(kproxy: Run) -> None:
    result = kproxy("completion", "csh")
    assert result.returncode == 2
    assert "'csh'" in result.stderr
