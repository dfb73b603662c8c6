"""Family X where the pages' stories do not say it: severities, spans, thresholds, half-seen logins."""

import base64
import json

import pytest

from dissectors.connections.tls_failures import TlsReason
from dissectors.trackers.authentication import Authentication, SaslPhase
from dissectors.trackers.state import ConnectionState
from kproxy.trace.lines import CloseLine, FindingEntry, FindingLine
from tests.kproxy.stories import BEGIN, Teller, findings, told

HANDSHAKE = '> SaslHandshake v1 {"mechanism": "%s"}\n< {"mechanisms": ["%s"]}\n'
PLAIN = HANDSHAKE % ("PLAIN", "PLAIN")
TOKEN = '> SaslAuthenticate v1 {"auth_bytes": "%s"}\n'
ALICE = PLAIN + TOKEN % b"\0alice\0hunter2".hex() + '< {"session_lifetime_ms": 60000}\n'
WRONG = PLAIN + TOKEN + '< {"error_code": 58, "error_message": "no"}\nclose by=server how=fin\n'
SCRAM = HANDSHAKE % ("SCRAM-SHA-256", "SCRAM-SHA-256") + TOKEN % b"n,,n=u,r=ab".hex()
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAABw"


def loud(story: str) -> list[str]:
    return [finding.code for finding in findings(story) if finding.code.startswith("X") and finding.severity != "info"]


def authentication(story: str) -> Authentication:
    """What is known of connection 1 at the end."""
    teller = Teller()
    teller.tell(story)
    connection: ConnectionState = teller.inspector._connections[1].connection_state
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
def test_a_password_in_the_clear_is_a_warning_once_it_leaves_the_machine(
    client: str, server: str, severity: str
) -> None:
    [finding] = findings(f"open 1 client={client} server={server}\n{PLAIN}", "X005")
    assert finding.severity == severity


@pytest.mark.parametrize(("server", "severity"), [("10.0.0.1:9092", "warning"), ("127.0.0.1:9092", "info")])
def test_a_password_in_the_clear_behind_kproxy_that_ends_tls_blames_kproxy(server: str, severity: str) -> None:
    [finding] = findings(f"open 1 client=10.0.0.9:50000 server={server} tls plaintext_upstream\n{PLAIN}", "X005")
    assert (finding.severity, finding.blame) == (severity, "proxy")
    assert finding.message == f"the password of SASL PLAIN is sent from kproxy to {server} without TLS"
    assert "--upstream-tls" in (finding.hint or "")


def test_mechanism_mismatch_blames_the_broker_that_names_what_it_refuses() -> None:
    story = """
        > SaslHandshake v1 {"mechanism": "PLAIN"}
        < {"error_code": 33, "mechanisms": ["SCRAM-SHA-512", "%s"]}
    """
    [client] = findings(story % "GSSAPI", "X007")
    [broker] = findings(story % "PLAIN", "X007")
    assert (client.blame, broker.blame) == ("client", "broker")
    assert "'PLAIN'" in client.message
    assert "SCRAM-SHA-512, GSSAPI" in client.message


def test_each_failed_login_is_an_error_and_the_third_says_how_often() -> None:
    story = 3 * (WRONG % "00 61 00 62")
    assert [finding.severity for finding in findings(story, "X008")] == ["error", "error"]
    assert "3 times" in findings(story, "X008")[1].message


def test_failures_of_three_users_are_not_counted_together() -> None:
    story = "".join(WRONG % f"00 6{number} 00 62" for number in (1, 2, 3))
    assert not any("times" in finding.message for finding in findings(story, "X008"))


def test_a_success_between_failures_begins_the_count_anew() -> None:
    good = PLAIN + TOKEN % "00 61 00 62" + "< {}\nclose by=client how=fin\n"
    bad = WRONG % "00 61 00 62"
    story = bad + bad + good + bad + bad
    assert loud(story) == ["X005", "X008"]
    assert not any("times" in finding.message for finding in findings(story, "X008"))


def test_no_finding_says_what_a_failed_login_sent() -> None:
    story = 3 * (WRONG % b"\0hunter2\0hunter2".hex())
    assert "hunter2" not in repr(findings(story))


def test_a_listener_that_closes_on_the_first_request_is_suspected_then_accused() -> None:
    refused = """
        > ApiVersions v0
        < {"api_keys": [{"api_key": 3, "max_version": 9}]}
        > Metadata v9 {"topics": null}
        close by=server how=fin
    """
    assert [finding.severity for finding in findings(3 * refused, "X006")] == ["info", "error"]
    assert "closed at the first Metadata and did not answer it, 3 times" in findings(3 * refused, "X006")[-1].message
    served = "        2> ListGroups v2\n        2< {}" + 3 * refused
    assert [finding.code for finding in findings(served) if finding.severity != "info"] == ["C013", "V007"]


def test_a_server_that_closes_after_two_seconds_does_not_want_sasl() -> None:
    assert not findings('> Metadata v9 {"topics": null}\n+3s\nclose by=server how=fin', "X006")


def test_a_requests_api_is_where_an_interleaved_request_is_wrong() -> None:
    story = ALICE + '> SaslHandshake v1 {"mechanism": "PLAIN"}\n> Heartbeat v4 {"group_id": "g"}'
    [finding] = findings(story, "X011")
    assert isinstance(finding, FindingEntry)
    assert (finding.path, finding.span) == ("header.request_api_key", (4, 6))
    assert not findings(story, "X017")


def test_a_client_that_comes_back_within_a_second_is_to_blame_for_the_refusal() -> None:
    again = '> SaslHandshake v1 {"mechanism": "PLAIN"}\n< {"error_code": 34}'
    [at_once] = findings(ALICE + again, "X012")
    [later] = findings(f"{ALICE}+5s\n{again}", "X012")
    assert (at_once.blame, later.blame) == ("client", "broker")
    assert not findings(ALICE + again, "X017")


def test_a_server_nonce_that_is_not_built_on_the_clients_is_the_brokers_fault() -> None:
    [finding] = findings(SCRAM + '< {"auth_bytes": "72 3d 78 79 7a 2c 73 3d 51 51"}', "X013")
    assert isinstance(finding, FindingEntry)
    assert (finding.blame, finding.path) == ("broker", "auth_bytes")
    assert "xyz" not in repr(finding)


@pytest.mark.parametrize(("name", "is_right"), [("a=b", False), ("a=3Db", True), ("a=2Cb", True), ("a=3db", False)])
def test_a_user_name_is_escaped(name: str, is_right: bool) -> None:
    sent = HANDSHAKE % ("SCRAM-SHA-256", "SCRAM-SHA-256") + TOKEN % f"n,,n={name},r=ab".encode().hex()
    found = findings(sent, "X020")
    assert [finding.hint for finding in found if "RFC 5802" in (finding.hint or "")] == [
        finding.hint for finding in found
    ]
    assert bool(found) is not is_right
    assert name not in "".join(finding.message for finding in found)


def test_scram_needs_two_tokens() -> None:
    assert authentication(SCRAM + '< {"auth_bytes": "72 3d 61 62 63"}').phase is SaslPhase.TOKENS
    assert "X017" in loud(SCRAM + '< {"auth_bytes": "72 3d 61 62 63"}\n> Metadata v9')


def test_an_oauth_server_that_answers_with_a_reason_has_let_nobody_in() -> None:
    bearer = HANDSHAKE % ("OAUTHBEARER", "OAUTHBEARER") + TOKEN % "6e"
    assert authentication(bearer + '< {"auth_bytes": "7b 7d"}').phase is SaslPhase.TOKENS
    assert authentication(bearer + "< {}").phase is SaslPhase.DONE


def test_the_principal_is_known_once_the_broker_has_accepted_it() -> None:
    assert authentication(PLAIN).principal is None
    assert authentication(ALICE).principal == "User:alice"
    [finding] = findings(ALICE + '> ListGroups v4\n< {"error_code": 31}', "X014")
    assert finding.message.startswith("'User:alice' is not allowed to use the cluster: ListGroups returned")


@pytest.mark.parametrize("lost", ["lose > 40", "lose < 40", "open 1 midstream"])
def test_after_a_loss_nothing_is_said_of_a_login(lost: str) -> None:
    story = (
        f'{lost}\n> Metadata v9 {{"topics": null}}\n< {{}}' if "open" in lost else f"{ALICE}{lost}\n+90s\n> Metadata v9"
    )
    assert not findings(story, "X010")
    assert not findings(story, "X016")
    assert authentication(story).phase is SaslPhase.UNKNOWN


def test_a_session_that_ran_out_is_told_once() -> None:
    assert len(findings(ALICE + '+61s\n> Metadata v9\n> Metadata v9\n> Heartbeat v4 {"group_id": "g"}', "X010")) == 1


@pytest.mark.parametrize(
    ("story", "said"),
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
def test_a_denial_names_the_operation_and_the_resource(story: str, said: str) -> None:
    [finding] = findings(story, "X014")
    assert said in finding.message
    assert finding.severity == "info"


def test_the_third_denial_of_a_resource_is_an_error_and_a_topic_id_has_its_name() -> None:
    metadata = '> Metadata v12\n< {"topics": [{"name": "orders", "topic_id": "ID"}]}\n'
    denied = (
        '> Fetch v13\n< {"responses": [{"topic_id": "ID", "partitions": [{"error_code": 29}, {"error_code": 29}]}]}\n'
    )
    story = (metadata + 4 * denied).replace("ID", TOPIC_ID)
    found = findings(story, "X014")
    assert [finding.severity for finding in found] == ["info", "error"]
    assert all("READ topic 'orders'" in finding.message for finding in found)


def test_an_idempotent_producer_that_is_denied_is_told_by_one_rule_alone() -> None:
    denied = '> InitProducerId v4 {"transactional_id": null}\n< {"error_code": 31}\n'
    assert [(finding.code, finding.severity) for finding in findings(3 * denied) if finding.code.startswith("X")] == [
        ("X015", "warning"),
        ("X015", "error"),
    ]


def test_a_denied_request_is_not_data_that_was_served() -> None:
    failed = PLAIN + TOKEN % "00 61 00 62" + '< {"error_code": 58}\n'
    assert not findings(
        failed + '> Metadata v9 {"topics": [{"name": "t"}]}\n< {"topics": [{"name": "t", "error_code": 29}]}', "X016"
    )


def test_tls_and_http_from_the_server_are_named() -> None:
    assert loud("> ApiVersions v0\n< hex 15 03 03 00 02 02 46") == ["X002"]
    [finding] = findings("> ApiVersions v0\n< hex 48 54 54 50 2f 31 2e 31 20 34 30 30", "X003")
    assert "server answers in HTTP" in finding.message


KERBEROS = bytes.fromhex("06092a864886f712010202")
RAW_SCRAM = '> SaslHandshake v0 {"mechanism": "SCRAM-SHA-256"}\n< {"mechanisms": ["SCRAM-SHA-256"]}\n' + (
    f"> hex {len(b'n,,n=u,r=ab'):08x}{b'n,,n=u,r=ab'.hex()}\n"
)
OAUTH = HANDSHAKE % ("OAUTHBEARER", "OAUTHBEARER")
ANSWER = '< {"auth_bytes": "%s"}\n'
REFUSED = ANSWER % b'{"status":"invalid_token","scope":"kafka"}'.hex()


def bearer(token: str) -> str:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode().hex()


def jwt(claims: dict[str, object]) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in ({"alg": "none"}, claims))
    return ".".join(part.decode().rstrip("=") for part in parts) + "."


@pytest.mark.parametrize(
    ("story", "mechanism", "reason"),
    [
        (WRONG % "00 61 00 62", "PLAIN login", "SaslAuthenticate returned SASL_AUTHENTICATION_FAILED: 'no'"),
        (OAUTH + TOKEN % bearer("x") + REFUSED + TOKEN % "01" + '< {"error_code": 58}', "OAUTHBEARER login",
         "returned SASL_AUTHENTICATION_FAILED (invalid_token)"),
        (OAUTH + TOKEN % bearer("x") + REFUSED + "close by=client", "OAUTHBEARER login",
         "the server answers invalid_token"),
        (OAUTH + TOKEN % bearer("x") + REFUSED + TOKEN % "01" + "close by=server", "OAUTHBEARER login",
         "the server answers invalid_token"),
        (OAUTH + TOKEN % bearer(jwt({"exp": BEGIN / 1e9 - 90})) + REFUSED + TOKEN % "01" + '< {"error_code": 58}',
         "OAUTHBEARER login", "the token expired 90 s before"),
        (SCRAM + ANSWER % b"r=abc,s=QQ==,i=4096".hex() + TOKEN % b"c=biws,r=abc,p=x".hex()
         + ANSWER % b"e=invalid-proof".hex(), "SCRAM-SHA-256 login",
         "the server answers invalid-proof"),
        (PLAIN + TOKEN % "00 61 00 62" + "close by=server how=fin", "PLAIN login",
         "the server closed the connection instead of answering SaslAuthenticate"),
        (ALICE + "+5s\n" + WRONG % "00 61 00 62", "PLAIN re-authentication", "'no'"),
        (PLAIN + TOKEN % "00 61 00 62" + '< {"error_code": -1}', "PLAIN login", "returned UNKNOWN_SERVER_ERROR"),
    ],
)  # fmt: skip
def test_a_failed_login_names_mechanism_and_reason(story: str, mechanism: str, reason: str) -> None:
    [finding] = findings(story, "X008")
    assert finding.severity == "error"
    assert finding.message.startswith(mechanism)
    assert reason in finding.message
    assert not {finding.code for finding in findings(story)} & {"C007", "C015", "C008"}


def test_nobody_is_let_in_after_a_refusal() -> None:
    story = OAUTH + TOKEN % bearer(jwt({"sub": "carol"})) + REFUSED + TOKEN % "01" + "< {}\n"
    assert authentication(story).phase is SaslPhase.FAILED
    assert authentication(story).principal is None
    [finding] = findings(story, "X008")
    assert "the server answers invalid_token" in finding.message


def test_another_mechanism_that_fails_is_another_failure() -> None:
    scram = SCRAM + '< {"error_code": 58, "error_message": "no"}\nclose by=server how=fin\n'
    assert len(findings(WRONG % "00 61 00 62" + scram, "X008")) == 2


@pytest.mark.parametrize(
    "story",
    [
        PLAIN + TOKEN % "00 61 00 62" + "+6s\nclose by=server how=fin",
        PLAIN + TOKEN % "00 61 00 62" + "close by=proxy how=fin",
        PLAIN.replace("v1", "v0") + "> hex 00 00 00 04 00 61 00 62\n+6s\nclose by=server",
    ],
)
def test_an_end_long_after_a_token_is_not_a_failed_login(story: str) -> None:
    assert not findings(story, "X008")


def test_a_token_that_a_server_quotes_is_not_repeated() -> None:
    token = jwt({"sub": "alice"})
    story = OAUTH + TOKEN % bearer(token) + f'< {{"error_code": 58, "error_message": "bad token {token}"}}'
    [finding] = findings(story, "X008")
    assert "(redacted, " in finding.message
    assert token[:12] not in repr(findings(story))


@pytest.mark.parametrize(
    ("count", "severity"), [(1, "warning"), (4095, "warning"), (4096, None), (1_000_001, "warning")]
)
def test_iterations_are_judged_in_frames_and_in_raw_tokens(count: int, severity: str | None) -> None:
    first = f"r=abc,s=QQ==,i={count}".encode()
    framed = findings(SCRAM + ANSWER % first.hex(), "X019")
    raw = findings(RAW_SCRAM + f"< hex {len(first):08x}{first.hex()}", "X019")
    assert (
        [finding.severity for finding in framed]
        == [finding.severity for finding in raw]
        == ([severity] if severity else [])
    )


def test_a_count_is_told_of_the_first_answer_alone() -> None:
    again = TOKEN % b"c=biws,r=abc,p=x".hex() + '< {"error_code": 58}\nclose by=server'
    story = SCRAM + ANSWER % b"r=abc,s=QQ==,i=1".hex() + again
    [line] = [line for line in told(story) if isinstance(line, CloseLine)]
    assert not [finding for finding in line.repeated if finding.code == "X019"]


def test_nonces_of_raw_tokens_are_compared_too() -> None:
    [finding] = findings(RAW_SCRAM + f"< hex {8:08x}{b'r=xyz,s='.hex()}", "X013")
    assert finding.blame == "broker"


def test_a_malformed_answer_is_the_brokers_fault_and_is_not_quoted() -> None:
    [finding] = findings(SCRAM + ANSWER % b"r=abchunter2,i=4096".hex(), "X020")
    assert (finding.blame, finding.severity) == ("broker", "error")
    assert finding.message == "a SCRAM-SHA-256 message of server 10.0.0.1:9092 has no salt (s=)"
    assert "hunter2" not in repr(finding)


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        ("", "it has not logged in"),
        (ALICE, "its login does not allow it"),
        (HANDSHAKE % ("SCRAM-SHA-256", "SCRAM-SHA-256") + TOKEN % b"n,,n=id,r=ab,tokenauth=true".hex()
         + ANSWER % b"r=abc,s=QQ==,i=4096".hex() + TOKEN % b"c=biws,r=abc,p=x".hex() + ANSWER % b"v=x".hex(),
         "it has logged in with a delegation token"),
    ],
)  # fmt: skip
def test_why_a_delegation_token_is_refused(story: str, reason: str) -> None:
    [finding] = findings(story + '> CreateDelegationToken v2\n< {"error_code": 64}', "X021")
    assert finding.message.endswith(reason)


def test_gssapi_needs_the_messages_that_agree_on_protection() -> None:
    story = HANDSHAKE % ("GSSAPI", "GSSAPI") + TOKEN % (b"\x60\x10" + KERBEROS + b"\x01\x00").hex()
    story += ANSWER % (b"\x60\x10" + KERBEROS + b"\x02\x00").hex()
    assert "X017" in loud(story + "> Metadata v9")
    story += '> SaslAuthenticate v1\n< {"auth_bytes": "05 04"}\n'
    assert authentication(story).phase is SaslPhase.TOKENS
    assert authentication(story + '> SaslAuthenticate v1 {"auth_bytes": "05 04"}\n< {}').phase is SaslPhase.DONE


def test_clients_of_0_9_begin_with_a_token_of_kerberos() -> None:
    token = b"\x60\x10" + KERBEROS + b"\x01\x00" + b"ticket"
    story = f"> hex {len(token):08x}{token.hex()}\n"
    state = authentication(story)
    assert (state.mechanism, state.raw, state.phase) == ("GSSAPI", True, SaslPhase.TOKENS)
    assert {finding.code for finding in findings(story + "close by=server")} == {"X008"}
    whole = story + f"< hex 00000002{b'xx'.hex()}\n> hex 000000020504\n> Metadata v0\n< {{}}\nclose by=server"
    assert not findings(whole, "X008")
    assert not findings(whole, "X017")


def test_re_authentications_are_counted() -> None:
    state = authentication(ALICE + "+5s\n" + ALICE + "+5s\n" + ALICE)
    assert (state.reauthentications, state.lifetime_ms, state.principal) == (2, 60000, "User:alice")
    assert state.authenticated_at is not None
    assert state.expires_at == state.authenticated_at + 60_000_000_000


def test_kproxy_that_ends_tls_is_told_to_use_it_towards_the_broker() -> None:
    [client] = findings("> ApiVersions v0\n< hex 15 03 03 00 02 02 46", "X002")
    [proxy] = findings("open 1 tls\n> ApiVersions v0\n< hex 15 03 03 00 02 02 46", "X002")
    assert (client.blame, proxy.blame) == ("client", "proxy")
    assert "--upstream-tls" in (proxy.hint or "")


def test_tls_that_fails_names_side_and_reason_and_each_client_once() -> None:
    story = "".join(
        f"open {number} client=10.0.0.{host}:{number} server=b1:9093 tls\n{number} tls {failed}\n{number} close\n"
        for number, host, failed in (
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
    ("side", "by"), [("client", "client"), ("client", "proxy"), ("server", "proxy"), ("server", "server")]
)
def test_each_reason_why_tls_fails_has_words_and_a_remedy(side: str, by: str) -> None:
    only_by_proxy = {TlsReason.PLAINTEXT, TlsReason.TIMEOUT}
    only_by_peer = {TlsReason.CLOSED, TlsReason.UNKNOWN_NAME}
    impossible = {
        ("client", "client"): only_by_proxy | {TlsReason.CERTIFICATE_REQUIRED, TlsReason.UNKNOWN_NAME},
        ("client", "proxy"): only_by_peer | {TlsReason.NAME_MISMATCH},
        ("server", "proxy"): only_by_peer | {TlsReason.CERTIFICATE_REQUIRED},
        ("server", "server"): only_by_proxy | {TlsReason.NAME_MISMATCH},
    }[side, by]
    for reason in set(TlsReason) - impossible - {TlsReason.OTHER}:
        [finding] = findings(f"open 1 tls\ntls {side} by={by} reason={reason}\nclose by={by} how=tls", "X022")
        assert "TLS error" not in finding.message, reason
        assert finding.hint, reason


def test_a_broker_that_refuses_the_certificate_after_the_handshake_is_one_finding() -> None:
    once = (
        "open {0} tls\n{0}> ApiVersions v3\n{0} tls server by=server reason=certificate_required\n"
        "{0} close by=server how=tls\n"
    )
    lines = told("".join(once.format(number) for number in (1, 2, 3, 4)))
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
def test_a_refused_token_is_named_by_what_can_be_read_of_it(token: object, expected: str) -> None:
    text = (
        token
        if isinstance(token, str)
        else ".".join(
            base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
            for each in ({"alg": "RS256"}, token, "s")
        )
    )
    message = f"n,,\x01auth=Bearer {text}\x01\x01".encode().hex()
    refusal = b'{"status":"invalid_token"}'.hex()
    story = BEARER + TOKEN % message + f'< {{"auth_bytes": "{refusal}"}}\n' + TOKEN % "01" + '< {"error_code": 58}\n'
    [finding] = findings(story, "X008")
    assert finding.message.endswith(f"(invalid_token){expected}")


def test_a_failed_scram_login_names_the_mechanism_of_the_credentials() -> None:
    [finding] = findings(SCRAM + '< {"error_code": 58, "error_message": "no"}\n', "X008")
    assert "credentials for SCRAM-SHA-256" in (finding.hint or "")


def test_the_end_of_an_expired_session_is_one_finding() -> None:
    story = ALICE + "+61s\n> Metadata v9\n> Metadata v9\nclose by=server how=fin\n"
    assert [finding.code for finding in findings(story) if finding.severity != "info"] == ["X005", "X010"]
