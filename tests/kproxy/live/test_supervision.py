"""When an inspector is restarted, and when it is given up."""

import signal

from kproxy.live.supervision import MOST_RESTARTS, WINDOW_S, RestartPolicy, ending


def test_each_restart_within_a_minute_waits_twice_as_long_and_the_sixth_is_not_made() -> None:
    policy = RestartPolicy()
    assert [policy.delay(now) for now in range(MOST_RESTARTS + 1)] == [1, 2, 4, 8, 16, None]


def test_what_is_longer_ago_than_a_minute_does_not_count() -> None:
    policy = RestartPolicy()
    assert [policy.delay(now) for now in (0, 10, 50, WINDOW_S, WINDOW_S + 9)] == [1, 2, 4, 4, 8]
    assert policy.delay(10 * WINDOW_S) == 1


def test_an_inspector_that_fails_every_now_and_then_is_always_restarted() -> None:
    policy = RestartPolicy()
    assert {policy.delay(13.0 * number) for number in range(100)} == {1, 2, 4, 8, 16}


def test_says_how_it_ended() -> None:
    assert ending(-signal.SIGKILL) == "killed by SIGKILL"
    assert ending(-99) == "killed by signal 99"
    assert ending(1) == "it failed"
    assert ending(255) == "it could not be started"
    assert ending(3) == "exit status 3"
