"""benchmarks/regression.py defines what counts as slower, and unpacks the pinned revision."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def regression(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("regression")


def fake_measure(pinned: list[float], current: list[float]) -> Any:
    """Return a measure that returns the given CPU seconds one after the other, and then repeats the last value."""
    seconds = {"pinned": pinned, "here": current}
    iterators: dict[str, Iterator[float]] = {name: iter(values) for name, values in seconds.items()}
    return lambda name: next(iterators[name], seconds[name][-1])


@pytest.mark.parametrize(
    ("pinned", "current", "is_slow"),
    [
        ([1.0], [1.15], False),
        ([1.0], [1.2], True),
        ([1.0, 9.0], [1.0, 10.0], False),  # both are slowed down by the same amount
        ([1.0], [9.0, 1.0], False),  # a single disturbance does not count
        ([1.0], [2.0, 2.0, 2.0, 1.0], False),  # more rounds are run if the code seems slow
        ([9.0], [1.0], False),
    ],
)
def test_less_than_85_percent_of_the_speed_is_too_slow(
    regression: Any, capsys: pytest.CaptureFixture[str], pinned: list[float], current: list[float], is_slow: bool
) -> None:
    slow_measures = regression.check({"work": fake_measure(pinned, current)}, 3)
    assert slow_measures == (["work"] if is_slow else [])
    assert "times as fast" in capsys.readouterr().out


def git(*arguments: str, directory: Path) -> str:
    completed = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True)
    return completed.stdout.strip()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Create a repository with two commits and the same directories as this one."""
    path = tmp_path / "history"
    for folder in ("kproxy", "dissectors", "benchmarks"):
        (path / folder).mkdir(parents=True)
        (path / folder / "a.py").write_text("")
    (path / "pyproject.toml").write_text("")
    git("init", "-q", "-b", "main", directory=path)
    for number in range(2):
        (path / "kproxy/a.py").write_text(f"{number}")
        git("add", ".", directory=path)
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a", directory=path)
    return path


def test_pinned_revision_is_unpacked_from_the_history(
    regression: Any, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "_HERE", history)
    assert regression.unpack("HEAD~1", tmp_path / "pinned") is None
    assert (tmp_path / "pinned/kproxy/a.py").read_text() == "0"
    assert "nothing" in regression.unpack("nothing", tmp_path / "none")


def test_shallow_clone_is_skipped_with_a_message(
    regression: Any, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clone"
    git("clone", "-q", "--depth", "1", f"file://{history}", str(clone), directory=tmp_path)
    monkeypatch.setattr(regression, "_HERE", clone)
    monkeypatch.setattr(sys, "argv", ["regression.py", "--pinned", git("rev-parse", "HEAD~1", directory=history)])
    with pytest.raises(SystemExit) as raised:
        regression.main()
    assert raised.value.code == 0
    assert "this clone is shallow" in capsys.readouterr().out
