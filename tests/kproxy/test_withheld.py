"""No output contains a secret from the traffic (X018 in the rule catalogue, which is about kproxy itself).

This applies to every output, at every detail, including findings and their excerpts.
"""

from __future__ import annotations

import base64
import io

import pytest

from kproxy.inspection.inspector import Inspector
from kproxy.outputs.text import TextOutput
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import Detail, Line
from tests.kproxy.frames import request, with_length_prefix
from tests.kproxy.stories import StoryPlayer

SECRET = b"hunter2" * 4

#: Every way to send a credential, in frames that also cause findings.
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

#: Parts of the secret in every encoding: as text, as hex with and without spaces, and in base64.
ENCODED_PARTS = {"hunter2", b"hunter2".hex(), b"hunter2".hex(" ")} | {
    base64.b64encode(bytes(shift) + SECRET)[start : start + 8].decode()
    for shift in range(3)
    for start in range(4, 28, 4)
}


def story_lines(detail: Detail) -> list[Line]:
    player = StoryPlayer(Inspector("story", detail))
    player.play(STORY)
    frame = request("SaslAuthenticate", 1, {"auth_bytes": SECRET})[4:]
    for damaged in (frame + b"\0\0", frame[:-3]):
        player.play(f"> hex {with_length_prefix(damaged).hex()}")
    return player.lines


def test_story_causes_findings() -> None:
    trace = bytearray()
    for line in story_lines(Detail.SUMMARY):
        append_line(line, trace)
    for code in (b"X008", b"X013", b"L001", b"L002"):
        assert b'"code":"%s"' % code in trace


@pytest.mark.parametrize("detail", list(Detail))
def test_trace_lines_do_not_contain_the_secret(detail: Detail) -> None:
    trace = bytearray()
    for line in story_lines(detail):
        append_line(line, trace)
    assert not [part for part in ENCODED_PARTS if part in trace.decode()]


@pytest.mark.parametrize("verbose", [False, True])
def test_text_output_does_not_contain_the_secret(verbose: bool) -> None:
    file = io.StringIO()
    output = TextOutput(file, verbose=verbose)
    for line in story_lines(Detail.FULL):
        output.write(line)
    assert not [part for part in ENCODED_PARTS if part in file.getvalue()]
