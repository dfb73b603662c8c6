""".ci/coverage checks the coverage of packages against their floors."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / ".ci" / "coverage"))


def file_report(covered_lines: int, lines: int, covered_branches: int = 0, branches: int = 0) -> dict[str, Any]:
    return {
        "summary": {
            "covered_lines": covered_lines,
            "num_statements": lines,
            "covered_branches": covered_branches,
            "num_branches": branches,
        }
    }


def test_coverage_of_a_package_counts_its_lines_and_branches() -> None:
    files = {
        "kproxy/tui/app.py": file_report(50, 100),
        "kproxy/tui/views/topics.py": file_report(40, 40, 30, 60),
        "kproxy/tui/__init__.py": file_report(0, 0),
        "kproxy/errors.py": file_report(3, 4),
        "kproxy/empty/__init__.py": file_report(0, 0),
    }
    assert SCRIPT["measure_packages"]({"files": files}) == {"kproxy": 75.0, "kproxy/tui": 60.0}


def test_package_below_its_floor_is_reported() -> None:
    floors = SCRIPT["read_floors"]("# comment\nkproxy/tui 61\nkproxy/web 60\n")
    [problem] = SCRIPT["find_problems"]({"kproxy/tui": 60.94, "kproxy/web": 60.0}, floors)
    assert problem.startswith("The coverage of kproxy/tui is 60.9 %, below its floor of 61 %: add tests, or, ")
    assert "`.ci/coverage --update`" in problem


def test_missing_and_superfluous_floors_are_reported() -> None:
    assert SCRIPT["find_problems"]({"kproxy/new": 99.0}, {"kproxy/old": 1}) == [
        "kproxy/new has no floor: run `.ci/coverage --update`.",
        "kproxy/old has a floor but does not exist: run `.ci/coverage --update`.",
    ]


def test_each_floor_belongs_to_a_package() -> None:
    floors = SCRIPT["read_floors"](SCRIPT["FLOORS"].read_text())
    assert [package for package in floors if not (ROOT / package).is_dir()] == []
    assert [floor for floor in floors.values() if not 0 <= floor <= 100] == []
