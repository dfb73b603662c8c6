"""The code on the page "Use the core in your tests" runs, and the page names what `kproxy` exports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kproxy

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "core.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BLOCKS_WITH_A_CLIENT = [block for block in BLOCKS if "from kafka import" in block]


def run_blocks(directory: Path, blocks: list[str]) -> subprocess.CompletedProcess[str]:
    for number, block in enumerate(blocks):
        (directory / f"test_block_{number}.py").write_text(block)
    (directory / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)


def test_code_on_the_page_runs(tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS if block not in BLOCKS_WITH_A_CLIENT]
    count = sum(block.count("\ndef test_") for block in blocks)
    completed = run_blocks(tmp_path, blocks)
    assert re.match(rf"{count} passed", completed.stdout.splitlines()[-1]), completed.stdout
    assert count > 10


@pytest.mark.peers
def test_code_on_the_page_with_a_real_client_runs(tmp_path: Path) -> None:
    pytest.importorskip("kafka")
    completed = run_blocks(tmp_path, BLOCKS_WITH_A_CLIENT)
    assert re.match(f"{len(BLOCKS_WITH_A_CLIENT)} passed", completed.stdout.splitlines()[-1]), completed.stdout


def test_kproxy_exports_what_a_type_checker_sees() -> None:
    tree = ast.parse(Path(kproxy.__file__).read_text())
    [block] = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    typed_names = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {"__version__", *typed_names} == set(kproxy.__all__) <= set(dir(kproxy))
    for name in kproxy.__all__:
        assert getattr(kproxy, name) is not None
    with pytest.raises(AttributeError, match="module 'kproxy' has no attribute 'Borker'"):
        kproxy.Borker  # type: ignore[attr-defined]  # noqa: B018


def test_page_names_the_objects_of_kproxy() -> None:
    objects = set(kproxy.__all__) - {"__version__", "BrokerOptions", "Cause", "CheckResult"}
    assert [name for name in objects if f"kproxy.{name}" not in PAGE] == []


def test_importing_kproxy_imports_nothing_else() -> None:
    script = (
        "import sys, kproxy; print(sorted(name for name in sys.modules if name.startswith(('kproxy', 'dissectors'))))"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert completed.stdout == "['kproxy', 'kproxy.version']\n"
