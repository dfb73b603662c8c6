"""X018 of the rule catalogue, which is about kproxy itself: nothing it writes holds a secret that went by.

A rule could only judge peers; this holds for every output, at every detail, findings and their excerpts included.
"""

from __future__ import annotations

import base64
import io

import pytest

from kproxy.inspection.inspector import Inspector
from kproxy.outputs.text import TextOutput
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import Detail, Line
from tests.kproxy.frames import framed, request
from tests.kproxy.stories import Teller

SECRET = b"hunter2" * 4

#: Every way in which a credential goes over the wire, each in a frame that a rule has something to say of as well.
STORY = """
open 1 client=10.0.0.9:50000
> ApiVersions v0
< {"api_keys": [{"api_key": 3, "max_version": 9}]}
> SaslHandshake v1 {"mechanism": "PLAIN"}
< {"mechanisms": ["PLAIN"]}
> SaslAuthenticate v1 {"auth_bytes": "00616c69636500HEX"}
< {"error_code": 58, "error_message": "no"}
> SaslAuthenticate v1 {"auth_bytes": "00HEX00HEX"}
< {"error_code": 58, "error_message": "no"}
> SaslAuthenticate v1 {"auth_bytes": "00HEX00HEX"}
< {"error_code": 58, "error_message": "no"}
2> SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
2< {"mechanisms": ["SCRAM-SHA-256"]}
2> SaslAuthenticate v1 {"auth_bytes": "6e2c2c6e3d752c723dHEX"}
2< {"auth_bytes": "723dHEX61"}
2> SaslAuthenticate v1 {"auth_bytes": "633d626977732c723dHEX62"}
3> SaslHandshake v0 {"mechanism": "PLAIN"}
3< {"mechanisms": ["PLAIN"]}
3> hex 0000002300616c69636500HEX
3 close by=server how=fin
> CreateDelegationToken v3
< {"hmac": "HEX"}
> RenewDelegationToken v2 {"hmac": "HEX"}
> ExpireDelegationToken v2 {"hmac": "HEX"}
> AlterUserScramCredentials v0 {"upsertions": [{"name": "alice", "salt": "HEX", "salted_password": "HEX"}]}
> AlterConfigs v2 {"resources": [{"configs": [{"name": "ssl.key.password", "value": "TEXT"}]}]}
> IncrementalAlterConfigs v1 {"resources": [{"configs": [{"name": "ssl.key.password", "value": "TEXT"}]}]}
> CreateTopics v7 {"topics": [{"name": "t", "configs": [{"name": "ssl.key.password", "value": "TEXT"}]}]}
""".replace("HEX", SECRET.hex()).replace("TEXT", SECRET.decode())

#: A part of the secret as it may show: as text, as hex in one or in pairs, in base64.
SHAPES = {"hunter2", b"hunter2".hex(), b"hunter2".hex(" ")} | {
    base64.b64encode(bytes(shift) + SECRET)[at : at + 8].decode() for shift in range(3) for at in range(4, 28, 4)
}


def told(detail: Detail) -> list[Line]:
    teller = Teller(Inspector("story", detail))
    teller.tell(STORY)
    whole = request("SaslAuthenticate", 1, {"auth_bytes": SECRET})[4:]
    for broken in (whole + b"\0\0", whole[:-3]):
        teller.tell(f"> hex {framed(broken).hex()}")
    return teller.lines


def test_the_story_is_one_of_which_rules_speak() -> None:
    written = bytearray()
    for line in told(Detail.SUMMARY):
        append_line(line, written)
    for code in (b"X008", b"X013", b"L001", b"L002"):
        assert b'"code":"%s"' % code in written


@pytest.mark.parametrize("detail", list(Detail))
def test_no_trace_line_holds_a_secret(detail: Detail) -> None:
    written = bytearray()
    for line in told(detail):
        append_line(line, written)
    assert not [shape for shape in SHAPES if shape in written.decode()]


@pytest.mark.parametrize("verbose", [False, True])
def test_no_row_of_text_holds_a_secret(verbose: bool) -> None:
    file = io.StringIO()
    output = TextOutput(file, verbose=verbose)
    for line in told(Detail.FULL):
        output.write(line)
    assert not [shape for shape in SHAPES if shape in file.getvalue()]
