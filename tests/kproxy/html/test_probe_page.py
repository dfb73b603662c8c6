"""The page of `kproxy probe` makes no requests, and text from a broker never becomes markup."""

from __future__ import annotations

import base64
import hashlib
import re

from kproxy.html.probe_page import probe_page
from kproxy.inspection.explain import explain
from kproxy.probe.check import Check, CheckResult
from kproxy.probe.clients import ClientScore
from tests.kproxy.frames import request
from tests.kproxy.html.pages import ParsedPage

HOSTILE = "</pre><script>alert(1)</script>\x1b[31m&amp;"


async def _run(_: object) -> None:
    """Do nothing; a check needs a function, but the page never runs it."""


def _result(identity: str, outcome: str, sentence: str = "") -> CheckResult:
    check = Check(identity, f"the title of {identity}", "Why it\nmatters.", ("KIP-1", "https://kafka.apache.org"), _run)
    frame = request("Metadata", 9, {"topics": [{"name": HOSTILE}]})
    return CheckResult(check, outcome, sentence, (explain(frame),) if outcome == "fail" else ())  # type: ignore[arg-type]


RESULTS = (
    _result("Metadata/v9/1", "pass"),
    _result("Metadata/v9/2", "fail", HOSTILE),
    _result("shares/some", "skip", "old"),
)
SCORES = (ClientScore("a client", 2, 1, ("Metadata/v9/2",), ("ShareFetch",)),)


def test_page_makes_no_requests_and_has_no_foreign_markup() -> None:
    page = ParsedPage(probe_page(f"localhost:9092 {HOSTILE}", RESULTS, SCORES))
    [policy] = [attrs["content"] or "" for tag, attrs in page.elements if tag == "meta" and "http-equiv" in attrs]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    digest = base64.b64encode(hashlib.sha256(page.texts["style"][0].encode()).digest()).decode()
    assert allowed == {
        "default-src": "'none'", "style-src": f"'sha256-{digest}'", "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip
    assert "script" not in page.texts
    ids = {attrs.get("id") for _, attrs in page.elements}
    for tag, attrs in page.elements:
        assert not attrs.keys() & {"src", "action", "style", "srcset", "data", "ping"}, tag
        assert not any(name.startswith("on") for name in attrs), tag
        assert (attrs.get("href") or "#")[1:] in {"", *ids}
    assert not re.search(r"@import|url\(", page.text)
    assert "\x1b" not in page.text


def test_page_lists_every_check_with_its_result() -> None:
    page = ParsedPage(probe_page("localhost:9092", RESULTS, SCORES))
    assert page.texts["h1"] == ["localhost:9092 passes 1 of 2 checks that apply"]
    assert page.texts["dd"] == ["1", "1", "1"]
    assert page.texts["code"] == ["Metadata/v9/2", "Metadata/v9/1", "Metadata/v9/2", "shares/some"]
    assert page.texts["b"] == ["Metadata", "shares"]
    assert "Why it matters." in page.texts["p"]
    assert page.texts["a"] == ["Metadata/v9/2"]
    assert "Metadata v9 request" in page.texts["pre"][0]
