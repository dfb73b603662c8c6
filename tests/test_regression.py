"""benchmarks/regression.py: what counts as slower, and where the pinned revision comes from."""

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


def measured(pinned: list[float], here: list[float]) -> Any:
    """A measure that returns these CPU seconds, one after the other; the last one is repeated."""
    seconds = {"pinned": pinned, "here": here}
    left: dict[str, Iterator[float]] = {name: iter(values) for name, values in seconds.items()}
    return lambda name: next(left[name], seconds[name][-1])


@pytest.mark.parametrize(
    ("pinned", "here", "slow"),
    [
        ([1.0], [1.15], False),
        ([1.0], [1.2], True),
        ([1.0, 9.0], [1.0, 10.0], False),  # both are slowed down alike
        ([1.0], [9.0, 1.0], False),  # a disturbance of one of them does not count
        ([1.0], [2.0, 2.0, 2.0, 1.0], False),  # more rounds if it seems slow
        ([9.0], [1.0], False),
    ],
)
def test_less_than_85_percent_of_the_speed_is_too_slow(
    regression: Any, capsys: pytest.CaptureFixture[str], pinned: list[float], here: list[float], slow: bool
) -> None:
    found = regression.check({"work": measured(pinned, here)}, 3)
    assert found == (["work"] if slow else [])
    assert "times as fast" in capsys.readouterr().out


def git(*words: str, at: Path) -> str:
    done = subprocess.run(["git", *words], cwd=at, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A repository with two commits, in which benchmarks/ is as here."""
    path = tmp_path / "history"
    for folder in ("kproxy", "dissectors", "benchmarks"):
        (path / folder).mkdir(parents=True)
        (path / folder / "a.py").write_text("")
    (path / "pyproject.toml").write_text("")
    git("init", "-q", "-b", "main", at=path)
    for number in range(2):
        (path / "kproxy/a.py").write_text(f"{number}")
        git("add", ".", at=path)
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a", at=path)
    return path


def test_the_pinned_revision_is_that_of_the_history(
    regression: Any, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "_HERE", history)
    assert regression.unpack("HEAD~1", tmp_path / "pinned") is None
    assert (tmp_path / "pinned/kproxy/a.py").read_text() == "0"
    assert "nothing" in regression.unpack("nothing", tmp_path / "none")


def test_a_shallow_clone_is_skipped_with_a_sentence(
    regression: Any, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clone = tmp_path / "clone"
    git("clone", "-q", "--depth", "1", f"file://{history}", str(clone), at=tmp_path)
    monkeypatch.setattr(regression, "_HERE", clone)
    monkeypatch.setattr(sys, "argv", ["regression.py", "--pinned", git("rev-parse", "HEAD~1", at=history)])
    with pytest.raises(SystemExit) as ended:
        regression.main()
    assert ended.value.code == 0
    assert "this clone is shallow" in capsys.readouterr().out
