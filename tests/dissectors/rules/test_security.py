"""Family X, beyond the stories on its pages: severities, spans, thresholds and incomplete logins."""

import base64
import json

import pytest

from dissectors.connections.tls_failures import TlsReason
from dissectors.trackers.authentication import Authentication, SaslPhase
from dissectors.trackers.state import ConnectionState
from kproxy.trace.lines import CloseLine, FindingEntry, FindingLine
from tests.kproxy.stories import BEGIN, StoryPlayer, findings, lines_of_story

HANDSHAKE = '> SaslHandshake v1 {"mechanism": "%s"}\n< {"mechanisms": ["%s"]}\n'
PLAIN = HANDSHAKE % ("PLAIN", "PLAIN")
TOKEN = '> SaslAuthenticate v1 {"auth_bytes": "%s"}\n'
ALICE_LOGIN = PLAIN + TOKEN % b"\0alice\0hunter2".hex() + '< {"session_lifetime_ms": 60000}\n'
FAILED_LOGIN = PLAIN + TOKEN + '< {"error_code": 58, "error_message": "no"}\nclose by=server how=fin\n'
SCRAM = HANDSHAKE % ("SCRAM-SHA-256", "SCRAM-SHA-256") + TOKEN % b"n,,n=u,r=ab".hex()
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABw"


def severe_codes(story: str) -> list[str]:
    return [finding.code for finding in findings(story) if finding.code.startswith("X") and finding.severity != "info"]


def authentication_after(story: str) -> Authentication:
    """Return what is known about connection 1 at the end of a story."""
    player = StoryPlayer()
    player.play(story)
    connection: ConnectionState = player.inspector._connections[1].connection_state
    return connection.state(Authentication)


@pytest.mark.parametrize(
    ("client", "server", "severity"),
    [
        ("127.0.0.1:50000", "127.9.9.9:9092", "info"),
        ("[::1]:50000", "[::1]:9092", "info"),
        ("127.0.0.1:50000", "10.0.0.1:9092", "warning"),
        ("10.0.0.2:50000", "127.0.0.1:9092", "warning"),
    ],
)
def test_clear_text_password_is_a_warning_outside_the_host(client: str, server: str, severity: str) -> None:
    [finding] = findings(f"open 1 client={client} server={server}\n{PLAIN}", "X005")
    assert finding.severity == severity


@pytest.mark.parametrize(("server", "severity"), [("10.0.0.1:9092", "warning"), ("127.0.0.1:9092", "info")])
def test_clear_text_password_sent_by_kproxy_blames_the_proxy(server: str, severity: str) -> None:
    [finding] = findings(f"open 1 client=10.0.0.9:50000 server={server} tls plaintext_upstream\n{PLAIN}", "X005")
    assert (finding.severity, finding.blame) == (severity, "proxy")
    assert finding.message == f"the password of SASL PLAIN is sent from kproxy to {server} without TLS"
    assert "--upstream-tls" in (finding.hint or "")


V0_LOGIN = PLAIN + TOKEN.replace("v1", "v0") % b"\0alice\0hunter2".hex() + "< {}\n"

#: SASL PLAIN without SaslAuthenticate: the token has no request header.
RAW_LOGIN = '> SaslHandshake v0 {"mechanism": "PLAIN"}\n< {"mechanisms": ["PLAIN"]}\n' + (
    "> hex 0000000e" + b"\0alice\0hunter2".hex() + "\n< hex 00000000\n"
)


def closed_session(number: int, *, after: str = "+20s", login: str = V0_LOGIN) -> str:
    """Return a connection that its server closes with a request in flight, some time after the login."""
    exchange = "+20s\n> Metadata v9\n< {}\n"
    lines = f"{login}{exchange}{exchange}{after}\n> Metadata v9\nclose by=server how=fin".splitlines()
    numbered_lines = [line if line.startswith("+") else f"{number}{line.replace('close', ' close')}" for line in lines]
    opened = f"open {number} client=10.0.0.9:5000{number} server=10.0.0.1:9092\n"
    return opened + "\n".join(numbered_lines) + "\n"


def test_sessions_of_equal_length_without_a_known_lifetime_are_reported() -> None:
    [finding] = findings(closed_session(1) + "+3s\n" + closed_session(2, after="+21s"), "X010")
    assert finding.message.startswith("the server closed a connection of client 'app' 61 s after its login, as it did")
    assert (finding.expected, finding.got) == ("SaslAuthenticate v1 or later", "v0")


@pytest.mark.parametrize(
    "story",
    [
        closed_session(1),
        closed_session(1) + closed_session(2, after="+29s"),
        closed_session(1).replace("+20s", "+5s") + closed_session(2).replace("+20s", "+5s"),
        closed_session(1).replace("by=server", "by=client") + closed_session(2).replace("by=server", "by=client"),
        closed_session(1, login=RAW_LOGIN) + closed_session(2, login=RAW_LOGIN),  # without SaslAuthenticate
        closed_session(1, login=ALICE_LOGIN.replace("60000", "0"))
        + closed_session(2, login=ALICE_LOGIN.replace("60000", "0")),
    ],
)
def test_closed_sessions_that_may_have_another_cause_are_not_reported(story: str) -> None:
    assert findings(story, "X010") == []


def test_mechanism_mismatch_blames_a_broker_that_advertises_the_mechanism() -> None:
    story = """
        > SaslHandshake v1 {"mechanism": "PLAIN"}
        < {"error_code": 33, "mechanisms": ["SCRAM-SHA-512", "%s"]}
    """
    [not_advertised] = findings(story % "GSSAPI", "X007")
    [advertised] = findings(story % "PLAIN", "X007")
    assert (not_advertised.blame, advertised.blame) == ("client", "broker")
    assert "'PLAIN'" in not_advertised.message
    assert "SCRAM-SHA-512, GSSAPI" in not_advertised.message


def test_failed_login_is_an_error_and_the_third_shows_the_count() -> None:
    story = 3 * (FAILED_LOGIN % "00 61 00 62")
    assert [finding.severity for finding in findings(story, "X008")] == ["error", "error"]
    assert "3 times" in findings(story, "X008")[1].message


def test_failures_of_different_users_are_counted_separately() -> None:
    story = "".join(FAILED_LOGIN % f"00 6{number} 00 62" for number in (1, 2, 3))
    assert not any("times" in finding.message for finding in findings(story, "X008"))


def test_successful_login_resets_the_count() -> None:
    success = PLAIN + TOKEN % "00 61 00 62" + "< {}\nclose by=client how=fin\n"
    failure = FAILED_LOGIN % "00 61 00 62"
    story = failure + failure + success + failure + failure
    assert severe_codes(story) == ["X005", "X008"]
    assert not any("times" in finding.message for finding in findings(story, "X008"))


def test_finding_of_a_failed_login_shows_no_credentials() -> None:
    story = 3 * (FAILED_LOGIN % b"\0hunter2\0hunter2".hex())
    assert "hunter2" not in repr(findings(story))


def test_repeated_close_on_the_first_request_becomes_an_error() -> None:
    attempt = """
        > ApiVersions v0
        < {"api_keys": [{"api_key": 3, "max_version": 9}]}
        > Metadata v9 {"topics": null}
        close by=server how=fin
    """
    assert [finding.severity for finding in findings(3 * attempt, "X006")] == ["info", "error"]
    assert "closed at the first Metadata and did not answer it, 3 times" in findings(3 * attempt, "X006")[-1].message
    with_other_connection = "        2> ListGroups v2\n        2< {}" + 3 * attempt
    assert [finding.code for finding in findings(with_other_connection) if finding.severity != "info"] == [
        "C013",
        "V007",
    ]


def test_server_that_closes_after_seconds_does_not_require_sasl() -> None:
    assert not findings('> Metadata v9 {"topics": null}\n+3s\nclose by=server how=fin', "X006")


def test_interleaved_request_is_reported_at_its_api_key() -> None:
    story = ALICE_LOGIN + '> SaslHandshake v1 {"mechanism": "PLAIN"}\n> Heartbeat v4 {"group_id": "g"}'
    [finding] = findings(story, "X011")
    assert isinstance(finding, FindingEntry)
    assert (finding.path, finding.span) == ("header.request_api_key", (4, 6))
    assert not findings(story, "X017")


def test_immediate_reauthentication_is_blamed_on_the_client() -> None:
    reauthentication = '> SaslHandshake v1 {"mechanism": "PLAIN"}\n< {"error_code": 34}'
    [immediate] = findings(ALICE_LOGIN + reauthentication, "X012")
    [delayed] = findings(f"{ALICE_LOGIN}+5s\n{reauthentication}", "X012")
    assert (immediate.blame, delayed.blame) == ("client", "broker")
    assert not findings(ALICE_LOGIN + reauthentication, "X017")


def test_server_nonce_without_the_client_nonce_blames_the_broker() -> None:
    [finding] = findings(SCRAM + '< {"auth_bytes": "72 3d 78 79 7a 2c 73 3d 51 51"}', "X013")
    assert isinstance(finding, FindingEntry)
    assert (finding.blame, finding.path) == ("broker", "auth_bytes")
    assert "xyz" not in repr(finding)


@pytest.mark.parametrize(("name", "is_correct"), [("a=b", False), ("a=3Db", True), ("a=2Cb", True), ("a=3db", False)])
def test_unescaped_user_name_is_reported(name: str, is_correct: bool) -> None:
    login = HANDSHAKE % ("SCRAM-SHA-256", "SCRAM-SHA-256") + TOKEN % f"n,,n={name},r=ab".encode().hex()
    reported = findings(login, "X020")
    assert [finding.hint for finding in reported if "RFC 5802" in (finding.hint or "")] == [
        finding.hint for finding in reported
    ]
    assert bool(reported) is not is_correct
    assert name not in "".join(finding.message for finding in reported)


def test_scram_login_needs_two_tokens() -> None:
    assert authentication_after(SCRAM + '< {"auth_bytes": "72 3d 61 62 63"}').phase is SaslPhase.TOKENS
    assert "X017" in severe_codes(SCRAM + '< {"auth_bytes": "72 3d 61 62 63"}\n> Metadata v9')


def test_oauth_login_with_a_refusal_is_not_complete() -> None:
    login = HANDSHAKE % ("OAUTHBEARER", "OAUTHBEARER") + TOKEN % "6e"
    assert authentication_after(login + '< {"auth_bytes": "7b 7d"}').phase is SaslPhase.TOKENS
    assert authentication_after(login + "< {}").phase is SaslPhase.DONE


def test_principal_is_known_once_the_broker_has_accepted_it() -> None:
    assert authentication_after(PLAIN).principal is None
    assert authentication_after(ALICE_LOGIN).principal == "User:alice"
    [finding] = findings(ALICE_LOGIN + '> ListGroups v4\n< {"error_code": 31}', "X014")
    assert finding.message.startswith("'User:alice' is not allowed to use the cluster: ListGroups returned")


@pytest.mark.parametrize("loss", ["lose > 40", "lose < 40", "open 1 midstream"])
def test_lost_bytes_make_the_login_unknown(loss: str) -> None:
    story = (
        f'{loss}\n> Metadata v9 {{"topics": null}}\n< {{}}'
        if "open" in loss
        else f"{ALICE_LOGIN}{loss}\n+90s\n> Metadata v9"
    )
    assert not findings(story, "X010")
    assert not findings(story, "X016")
    assert authentication_after(story).phase is SaslPhase.UNKNOWN


def test_expired_session_is_reported_once() -> None:
    assert (
        len(findings(ALICE_LOGIN + '+61s\n> Metadata v9\n> Metadata v9\n> Heartbeat v4 {"group_id": "g"}', "X010")) == 1
    )


@pytest.mark.parametrize(
    ("story", "denied_access"),
    [
        ('> Produce v7 {"acks": 1, "topic_data": []}\n'
         '< {"responses": [{"name": "orders", "partition_responses": [{"error_code": 29}]}]}',
         "WRITE topic 'orders'"),
        ('> OffsetCommit v7 {"group_id": "g"}\n< {"topics": [{"name": "orders", "partitions": [{"error_code": 30}]}]}',
         "READ group 'g'"),
        ('> FindCoordinator v4 {"coordinator_keys": ["g"]}\n< {"coordinators": [{"key": "g", "error_code": 30}]}',
         "DESCRIBE group 'g'"),
        ('> FindCoordinator v1 {"key": "g"}\n< {"error_code": 30}', "DESCRIBE group 'g'"),
        ('> InitProducerId v4 {"transactional_id": "pay"}\n< {"error_code": 53}', "WRITE transactional id 'pay'"),
        ('> EndTxn v3 {"transactional_id": "pay"}\n< {"error_code": 53}', "WRITE transactional id 'pay'"),
        ('> CreateAcls v1\n< {"results": [{"error_code": 31}]}', "ALTER the cluster"),
        ('> DescribeDelegationToken v1\n< {"error_code": 65}', "DESCRIBE delegation token"),
    ],
)  # fmt: skip
def test_denial_names_the_operation_and_the_resource(story: str, denied_access: str) -> None:
    [finding] = findings(story, "X014")
    assert denied_access in finding.message
    assert finding.severity == "info"


def test_third_denial_is_an_error_with_the_topic_name() -> None:
    metadata = '> Metadata v12\n< {"topics": [{"name": "orders", "topic_id": "ID"}]}\n'
    denial = (
        '> Fetch v13\n< {"responses": [{"topic_id": "ID", "partitions": [{"error_code": 29}, {"error_code": 29}]}]}\n'
    )
    story = (metadata + 4 * denial).replace("ID", TOPIC_ID)
    reported = findings(story, "X014")
    assert [finding.severity for finding in reported] == ["info", "error"]
    assert all("READ topic 'orders'" in finding.message for finding in reported)


def test_denied_idempotent_producer_is_reported_by_one_rule_only() -> None:
    exchange = '> InitProducerId v4 {"transactional_id": null}\n< {"error_code": 31}\n'
    assert [(finding.code, finding.severity) for finding in findings(3 * exchange) if finding.code.startswith("X")] == [
        ("X015", "warning"),
        ("X015", "error"),
    ]


def test_denied_request_does_not_count_as_served_data() -> None:
    failed_login = PLAIN + TOKEN % "00 61 00 62" + '< {"error_code": 58}\n'
    assert not findings(
        failed_login + '> Metadata v9 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 29}]}',
        "X016",
    )


def test_tls_and_http_from_the_server_are_recognised() -> None:
    assert severe_codes("> ApiVersions v0\n< hex 15 03 03 00 02 02 46") == ["X002"]
    [finding] = findings("> ApiVersions v0\n< hex 48 54 54 50 2f 31 2e 31 20 34 30 30", "X003")
    assert "server answers in HTTP" in finding.message


KERBEROS = bytes.fromhex("06092a864886f712010202")
RAW_SCRAM = '> SaslHandshake v0 {"mechanism": "SCRAM-SHA-256"}\n< {"mechanisms": ["SCRAM-SHA-256"]}\n' + (
    f"> hex {len(b'n,,n=u,r=ab'):08x}{b'n,,n=u,r=ab'.hex()}\n"
)
OAUTH = HANDSHAKE % ("OAUTHBEARER", "OAUTHBEARER")
ANSWER = '< {"auth_bytes": "%s"}\n'
REFUSED = ANSWER % b'{"status":"invalid_token","scope":"kafka"}'.hex()


def bearer_message(token: str) -> str:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode().hex()


def jwt(claims: dict[str, object]) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims))
    return ".".join(part.decode().rstrip("=") for part in parts) + "."


@pytest.mark.parametrize(
    ("story", "mechanism", "reason"),
    [
        (FAILED_LOGIN % "00 61 00 62", "PLAIN login", "SaslAuthenticate returned SASL_AUTHENTICATION_FAILED: 'no'"),
        (OAUTH + TOKEN % bearer_message("x") + REFUSED + TOKEN % "01" + '< {"error_code": 58}', "OAUTHBEARER login",
         "returned SASL_AUTHENTICATION_FAILED (invalid_token)"),
        (OAUTH + TOKEN % bearer_message("x") + REFUSED + "close by=client", "OAUTHBEARER login",
         "the server answers invalid_token"),
        (OAUTH + TOKEN % bearer_message("x") + REFUSED + TOKEN % "01" + "close by=server", "OAUTHBEARER login",
         "the server answers invalid_token"),
        (OAUTH + TOKEN % bearer_message(jwt({"exp": BEGIN / 1e9 - 90})) + REFUSED + TOKEN % "01"
         + '< {"error_code": 58}', "OAUTHBEARER login", "the token expired 90 s before"),
        (SCRAM + ANSWER % b"r=abc,s=QQ==,i=4096".hex() + TOKEN % b"c=biws,r=abc,p=x".hex()
         + ANSWER % b"e=invalid-proof".hex(), "SCRAM-SHA-256 login",
         "the server answers invalid-proof"),
        (PLAIN + TOKEN % "00 61 00 62" + "close by=server how=fin", "PLAIN login",
         "the server closed the connection instead of answering SaslAuthenticate"),
        (ALICE_LOGIN + "+5s\n" + FAILED_LOGIN % "00 61 00 62", "PLAIN re-authentication", "'no'"),
        (PLAIN + TOKEN % "00 61 00 62" + '< {"error_code": -1}', "PLAIN login", "returned UNKNOWN_SERVER_ERROR"),
    ],
)  # fmt: skip
def test_failed_login_names_mechanism_and_reason(story: str, mechanism: str, reason: str) -> None:
    [finding] = findings(story, "X008")
    assert finding.severity == "error"
    assert finding.message.startswith(mechanism)
    assert reason in finding.message
    assert not {finding.code for finding in findings(story)} & {"C007", "C015", "C008"}


def test_client_stays_unauthenticated_after_a_refusal() -> None:
    story = OAUTH + TOKEN % bearer_message(jwt({"sub": "carol"})) + REFUSED + TOKEN % "01" + "< {}\n"
    assert authentication_after(story).phase is SaslPhase.FAILED
    assert authentication_after(story).principal is None
    [finding] = findings(story, "X008")
    assert "the server answers invalid_token" in finding.message


def test_failures_of_different_mechanisms_are_reported_separately() -> None:
    scram_failure = SCRAM + '< {"error_code": 58, "error_message": "no"}\nclose by=server how=fin\n'
    assert len(findings(FAILED_LOGIN % "00 61 00 62" + scram_failure, "X008")) == 2


@pytest.mark.parametrize(
    "story",
    [
        PLAIN + TOKEN % "00 61 00 62" + "+6s\nclose by=server how=fin",
        PLAIN + TOKEN % "00 61 00 62" + "close by=proxy how=fin",
        PLAIN.replace("v1", "v0") + "> hex 00 00 00 04 00 61 00 62\n+6s\nclose by=server",
    ],
)
def test_close_long_after_a_token_is_not_a_failed_login(story: str) -> None:
    assert not findings(story, "X008")


def test_token_quoted_by_the_server_is_redacted() -> None:
    token = jwt({"sub": "alice"})
    story = OAUTH + TOKEN % bearer_message(token) + f'< {{"error_code": 58, "error_message": "bad token {token}"}}'
    [finding] = findings(story, "X008")
    assert "(redacted, " in finding.message
    assert token[:12] not in repr(findings(story))


@pytest.mark.parametrize(
    ("count", "severity"), [(1, "warning"), (4095, "warning"), (4096, None), (1_000_001, "warning")]
)
def test_iteration_count_is_checked_in_frames_and_raw_tokens(count: int, severity: str | None) -> None:
    server_first = f"r=abc,s=QQ==,i={count}".encode()
    from_frame = findings(SCRAM + ANSWER % server_first.hex(), "X019")
    from_token = findings(RAW_SCRAM + f"< hex {len(server_first):08x}{server_first.hex()}", "X019")
    assert (
        [finding.severity for finding in from_frame]
        == [finding.severity for finding in from_token]
        == ([severity] if severity else [])
    )


def test_iteration_count_is_checked_in_the_first_response_only() -> None:
    next_exchange = TOKEN % b"c=biws,r=abc,p=x".hex() + '< {"error_code": 58}\nclose by=server'
    story = SCRAM + ANSWER % b"r=abc,s=QQ==,i=1".hex() + next_exchange
    [line] = [line for line in lines_of_story(story) if isinstance(line, CloseLine)]
    assert not [finding for finding in line.repeated if finding.code == "X019"]


def test_different_nonce_in_a_raw_token_is_blamed_on_the_broker() -> None:
    [finding] = findings(RAW_SCRAM + f"< hex {8:08x}{b'r=xyz,s='.hex()}", "X013")
    assert finding.blame == "broker"


def test_malformed_scram_response_blames_the_broker_and_is_not_quoted() -> None:
    [finding] = findings(SCRAM + ANSWER % b"r=abchunter2,i=4096".hex(), "X020")
    assert (finding.blame, finding.severity) == ("broker", "error")
    assert finding.message == "a SCRAM-SHA-256 message of server 10.0.0.1:9092 has no salt (s=)"
    assert "hunter2" not in repr(finding)


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        ("", "it has not logged in"),
        (ALICE_LOGIN, "its login does not allow it"),
        (HANDSHAKE % ("SCRAM-SHA-256", "SCRAM-SHA-256") + TOKEN % b"n,,n=id,r=ab,tokenauth=true".hex()
         + ANSWER % b"r=abc,s=QQ==,i=4096".hex() + TOKEN % b"c=biws,r=abc,p=x".hex() + ANSWER % b"v=x".hex(),
         "it has logged in with a delegation token"),
    ],
)  # fmt: skip
def test_refused_delegation_token_is_explained(story: str, reason: str) -> None:
    [finding] = findings(story + '> CreateDelegationToken v2\n< {"error_code": 64}', "X021")
    assert finding.message.endswith(reason)


def test_gssapi_login_needs_the_protection_messages() -> None:
    story = HANDSHAKE % ("GSSAPI", "GSSAPI") + TOKEN % (b"\x60\x10" + KERBEROS + b"\x01\x00").hex()
    story += ANSWER % (b"\x60\x10" + KERBEROS + b"\x02\x00").hex()
    assert "X017" in severe_codes(story + "> Metadata v9")
    story += '> SaslAuthenticate v1\n< {"auth_bytes": "05 04"}\n'
    assert authentication_after(story).phase is SaslPhase.TOKENS
    assert authentication_after(story + '> SaslAuthenticate v1 {"auth_bytes": "05 04"}\n< {}').phase is SaslPhase.DONE


def test_raw_kerberos_token_starts_a_gssapi_login() -> None:
    token = b"\x60\x10" + KERBEROS + b"\x01\x00" + b"ticket"
    story = f"> hex {len(token):08x}{token.hex()}\n"
    state = authentication_after(story)
    assert (state.mechanism, state.raw, state.phase) == ("GSSAPI", True, SaslPhase.TOKENS)
    assert {finding.code for finding in findings(story + "close by=server")} == {"X008"}
    complete_login = story + f"< hex 00000002{b'xx'.hex()}\n> hex 000000020504\n> Metadata v0\n< {{}}\nclose by=server"
    assert not findings(complete_login, "X008")
    assert not findings(complete_login, "X017")


def test_reauthentications_are_counted() -> None:
    state = authentication_after(ALICE_LOGIN + "+5s\n" + ALICE_LOGIN + "+5s\n" + ALICE_LOGIN)
    assert (state.reauthentications, state.lifetime_ms, state.principal) == (2, 60000, "User:alice")
    assert state.authenticated_at is not None
    assert state.expires_at == state.authenticated_at + 60_000_000_000


def test_plaintext_upstream_to_a_tls_broker_blames_the_proxy() -> None:
    [by_client] = findings("> ApiVersions v0\n< hex 15 03 03 00 02 02 46", "X002")
    [by_proxy] = findings("open 1 tls\n> ApiVersions v0\n< hex 15 03 03 00 02 02 46", "X002")
    assert (by_client.blame, by_proxy.blame) == ("client", "proxy")
    assert "--upstream-tls" in (by_proxy.hint or "")


def test_tls_failure_is_reported_once_per_client_with_side_and_reason() -> None:
    story = "".join(
        f"open {number} client=10.0.0.{host}:{number} server=b1:9093 tls\n{number} tls {failure}\n{number} close\n"
        for number, host, failure in (
            (1, 7, "client by=client reason=unknown_ca"),
            (2, 7, "client by=client reason=unknown_ca"),
            (3, 8, "client by=client reason=unknown_ca"),
            (4, 7, "client by=proxy reason=certificate_required"),
            (5, 7, "server by=proxy reason=expired"),
            (6, 7, "server by=server reason=certificate_required"),
        )
    )
    assert [(finding.blame, finding.message) for finding in findings(story, "X022")] == [
        ("client", "TLS with client 10.0.0.7 failed: it does not trust kproxy's certificate: unknown CA"),
        ("client", "TLS with client 10.0.0.8 failed: it does not trust kproxy's certificate: unknown CA"),
        ("client", "TLS with client 10.0.0.7 failed: it sent no client certificate"),
        ("broker", "TLS with upstream b1:9093 failed: its certificate has expired"),
        ("broker", "TLS with upstream b1:9093 failed: it requires a client certificate"),
    ]


@pytest.mark.parametrize(
    ("side", "failed_by"), [("client", "client"), ("client", "proxy"), ("server", "proxy"), ("server", "server")]
)
def test_every_tls_failure_reason_has_a_message_and_a_hint(side: str, failed_by: str) -> None:
    only_by_proxy = {TlsReason.PLAINTEXT, TlsReason.TIMEOUT}
    only_by_peer = {TlsReason.CLOSED, TlsReason.UNKNOWN_NAME}
    impossible = {
        ("client", "client"): only_by_proxy | {TlsReason.CERTIFICATE_REQUIRED, TlsReason.UNKNOWN_NAME},
        ("client", "proxy"): only_by_peer | {TlsReason.NAME_MISMATCH},
        ("server", "proxy"): only_by_peer | {TlsReason.CERTIFICATE_REQUIRED},
        ("server", "server"): only_by_proxy | {TlsReason.NAME_MISMATCH},
    }[side, failed_by]
    for reason in set(TlsReason) - impossible - {TlsReason.OTHER}:
        [finding] = findings(
            f"open 1 tls\ntls {side} by={failed_by} reason={reason}\nclose by={failed_by} how=tls", "X022"
        )
        assert "TLS error" not in finding.message, reason
        assert finding.hint, reason


def test_certificate_refused_after_the_handshake_is_one_finding() -> None:
    attempt = (
        "open {0} tls\n{0}> ApiVersions v3\n{0} tls server by=server reason=certificate_required\n"
        "{0} close by=server how=tls\n"
    )
    lines = lines_of_story("".join(attempt.format(number) for number in (1, 2, 3, 4)))
    codes = [line.code for line in lines if isinstance(line, FindingLine)]
    assert codes == ["X022"]


BEARER = HANDSHAKE % ("OAUTHBEARER", "OAUTHBEARER")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("opaque", "; the token is not a JWT"),
        ({"sub": "u", "nbf": BEGIN // 10**9 + 61}, "; the token is not valid yet, but in 61 s"),
        ({"sub": "u", "exp": BEGIN // 10**9 - 60}, "; the token expired 60 s before"),
        ({"sub": "u"}, ""),
    ],
)
def test_refused_token_is_described_by_its_claims(token: object, expected: str) -> None:
    token_text = (
        token
        if isinstance(token, str)
        else ".".join(
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
            for part in ({"alg": "RS256"}, token, "s")
        )
    )
    message = f"n,,\x01auth=Bearer {token_text}\x01\x01".encode().hex()
    refusal = b'{"status":"invalid_token"}'.hex()
    story = BEARER + TOKEN % message + f'< {{"auth_bytes": "{refusal}"}}\n' + TOKEN % "01" + '< {"error_code": 58}\n'
    [finding] = findings(story, "X008")
    assert finding.message.endswith(f"(invalid_token){expected}")


def test_failed_scram_login_names_the_mechanism_of_the_credentials() -> None:
    [finding] = findings(SCRAM + '< {"error_code": 58, "error_message": "no"}\n', "X008")
    assert "credentials for SCRAM-SHA-256" in (finding.hint or "")


def test_close_after_an_expired_session_is_one_finding() -> None:
    story = ALICE_LOGIN + "+61s\n> Metadata v9\n> Metadata v9\nclose by=server how=fin\n"
    assert [finding.code for finding in findings(story) if finding.severity != "info"] == ["X005", "X010"]
