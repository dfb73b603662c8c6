"""In the documents, commands print the output that is shown, and links have targets."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "captures/*.md", "newsfragments/*.md", "tests/*.md")
    for path in ROOT.glob(pattern)
)

#: A pip command that would install `kproxy` from the package index, which is an unrelated package.
_INDEX_INSTALLATION = r"pip (?:install|wheel|download)(?: -\S+(?: \.)?)* ['\"]?kproxy(?:\[| [&|;])"


def _commands_with_output(page: str) -> list[tuple[str, str]]:
    """Return each ``$ kproxy`` command of a page that reads files of the checkout, and the output shown below it."""
    blocks = re.findall(r"^    \$ (kproxy (?:dissect|explain) .*)\n((?:(?:    (?!\$).*)?\n)+)", page, re.MULTILINE)
    return [(command, textwrap.dedent(output).strip("\n")) for command, output in blocks]


SHOWN_COMMANDS = [*_commands_with_output(README), *_commands_with_output((ROOT / "docs" / "hangs.md").read_text())]


@pytest.mark.parametrize(("command", "output"), SHOWN_COMMANDS, ids=[command for command, _ in SHOWN_COMMANDS])
def test_command_of_a_page_prints_what_the_page_shows(command: str, output: str) -> None:
    completed = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    pattern = "(?s:.*)".join(re.escape(part) for part in re.split(r"^\.\.\.$", output, flags=re.MULTILINE))
    assert re.fullmatch(pattern, completed.stdout.rstrip("\n")), completed.stdout + completed.stderr


def test_readme_shows_commands_and_stays_short() -> None:
    assert len(_commands_with_output(README)) >= 5
    assert len(SHOWN_COMMANDS) >= 13
    assert len(README.splitlines()) <= 200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_existing_targets(page: Path) -> None:
    text = re.sub(r"^```.*?^```|^    .*$|`[^`\n]*`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, target


def test_no_page_installs_the_unrelated_package_of_this_name() -> None:
    sources = [*PAGES, *ROOT.glob("kproxy/**/*.py"), *ROOT.glob("dissectors/**/*.py")]
    matching = [path for path in sources if re.search(_INDEX_INSTALLATION, path.read_text())]
    assert not matching
