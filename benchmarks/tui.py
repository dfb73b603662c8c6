"""Measure the cost of `kproxy tui` and its response to keys: under load, with a million frames, and while idle.

    python benchmarks/tui.py [live] [million] [idle] [--rounds 5] [--seconds 4] [--exchanges 500000]

In a real terminal (tmux), a key is pressed, and the screen is read until it shows the effect. CPU is the user and
system time of the program meanwhile, which is the response time on an otherwise idle machine. `less` with the same file
is measured for comparison. Under load, two proxies take turns, one of them watched; both run throughout.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from control import ANSWER, FULL_LOAD_S, IDS, REQUEST, REQUESTS, Contender, kproxy, ratio, upstream
from control import load as load_fully
from relay_load import cpu_seconds, process
from screen import Screen

from kproxy.trace.encoding import encode_line
from kproxy.trace.lines import ErrorEntry, FindingEntry, OpenLine, RequestLine, ResponseLine, TopicEntry
from kproxy.trace.timestamps import timestamp

TUI = (sys.executable, "-m", "kproxy", "tui")
#: Lines of the screen that always show rows, which never change by themselves.
FIRST, LAST = 6, 14
#: The number of requests that are sent together under load.
BATCH = 5

#: For each action, the times that it took and the program's CPU time meanwhile, both in s.
Times = dict[str, list[tuple[float, float]]]


def time_action(screen: Screen, action: Callable[[], float]) -> tuple[float, float]:
    """Return the seconds that `action` reports, and the CPU time of the program in the terminal meanwhile."""
    cpu_before = cpu_seconds(screen.pid)
    return action(), cpu_seconds(screen.pid) - cpu_before


def write_trace(path: Path, exchanges: int) -> None:
    """Write a trace of forty connections from twelve clients, with topics, groups, errors and findings."""
    chance = random.Random(6)
    apis = ((0, "Produce", 9), (1, "Fetch", 12), (12, "Heartbeat", 4), (8, "OffsetCommit", 8), (3, "Metadata", 12))
    at = 1_763_690_000_000_000
    with path.open("wb") as file:
        for number in range(-40, exchanges):
            at += chance.randrange(1, 800)
            connection = number % 40 if number < 0 else chance.randrange(40)
            ends: dict[str, Any] = {
                "v": 1, "connection_id": f"web-1-7-{connection}", "client": f"10.0.0.{connection}:4000",
                "server": "10.0.1.1:9092",
            }  # fmt: skip
            if number < 0:
                file.write(encode_line(OpenLine(ts=timestamp(at * 1000), **ends)))
                continue
            key, api, version = chance.choices(apis, (40, 40, 14, 5, 1))[0]
            topic = TopicEntry(topic=f"orders-{chance.randrange(20)}", partitions=[chance.randrange(8)])
            if key in (0, 1):
                topic.bytes, topic.records, topic.batches = 700, 5, 1
            facts = ends | {
                "api": api, "api_key": key, "api_version": version, "correlation_id": number,
                "client_id": f"shop-{connection % 12}", "topics": [topic] if key in (0, 1, 8) else [],
                "group_id": f"billing-{connection % 12}" if key in (8, 12) else None,
            }  # fmt: skip
            member = {"member_id": f"shop-{connection % 12}-4711", "generation_id": 3} if key in (8, 12) else {}
            request_time, latency = timestamp(at * 1000), int(chance.lognormvariate(7, 1))
            finding = FindingEntry("S012", "some-rule", "warning", "something is not as it should be")
            response_error = ErrorEntry("responses[0].error_code", 6, "NOT_LEADER_OR_FOLLOWER")
            file.write(encode_line(RequestLine(
                ts=request_time, size=chance.randrange(80, 1200), offset=number * 100, acks=None if key else -1,
                findings=[finding] if number % 1000 == 77 else [], **facts, **member,
            )))  # fmt: skip
            file.write(encode_line(ResponseLine(
                ts=timestamp((at + latency) * 1000), request_ts=request_time, latency_us=latency, request_size=200,
                size=chance.randrange(50, 2000), offset=number * 90,
                errors=[response_error] if number % 100 == 13 else [],
                **facts,
            )))  # fmt: skip


def load(port: int, seconds: float, rate: float) -> list[float]:
    """Exchange frames at a rate (frames/s in both directions together); return the times of the round trips in s."""
    trips = []
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        position = 0
        while (now := time.perf_counter() - started) < seconds:
            if (ahead := 2 * BATCH * len(trips) / rate - now) > 0:
                time.sleep(ahead)
            sent_at = time.perf_counter()
            sock.sendall(REQUESTS[position * REQUEST : (position + BATCH) * REQUEST])
            sock.recv(BATCH * ANSWER, socket.MSG_WAITALL)
            trips.append(time.perf_counter() - sent_at)
            position = (position + BATCH) % IDS
    return trips


def press_keys(screen: Screen, times: Times, *, go_on: Callable[[], bool] = lambda: False, views: bool = True) -> None:
    """Move around, and record how long each key takes; repeat while `go_on` returns true."""
    while True:
        move_to_middle(screen)
        for label, keys in (("a row", "jkjkjk"), ("a page", ("PageDown",) * 3), ("G, g", "Gg")):
            for key in keys:
                times.setdefault(label, []).append(
                    time_action(screen, lambda key=key: screen.time_change(key, FIRST, LAST))
                )
                time.sleep(random.uniform(0.05, 0.2))
        for view in "234567" if views else "":
            timing = time_action(screen, lambda view=view: screen.time_change(view, FIRST, LAST))
            times.setdefault("another view", []).append(timing)
            screen.press("1")
            time.sleep(0.3)
        if not go_on():
            return


def start(screen: Screen) -> str:
    """Wait for the first rows; return a text with the time that they took."""
    shown_at = screen.until(lambda lines: any(":4000" in line or "Heartbeat" in line for line in lines))
    cpu_used = cpu_seconds(screen.pid)
    time.sleep(0.5)
    return f"first rows after {shown_at - screen.began:.2f} s ({cpu_used:.2f} s of CPU)"


def move_to_middle(screen: Screen) -> None:
    """Move the cursor to the observed lines."""
    for key in "g" + "j" * (LAST - FIRST - 3):
        screen.press(key)
    time.sleep(0.5)


def timing_rows(times: Times) -> Iterator[str]:
    """Yield a row for each action: median, p99 and maximum of its times, and the median of its CPU time."""
    for label, series in times.items():
        durations = sorted(wall for wall, _ in series)
        p99 = durations[int(len(durations) * 0.99)]
        cpu_used = statistics.median(cpu for _, cpu in series)
        yield "".join(
            f"{1e3 * value:10.0f}" for value in (statistics.median(durations), p99, durations[-1], cpu_used)
        ).join((f"    {label:16}", f" ms{len(series):8} times"))


HEAD = f"    {'':16}{'median':>10}{'p99':>10}{'max':>10}{'CPU':>10}"


def measure_live(args: argparse.Namespace, directory: Path, env: Mapping[str, str]) -> None:
    """Measure keys under load, and the effect of the viewer on the relay."""
    with ExitStack() as stack:
        port, _ = stack.enter_context(process(upstream))
        names = ("not watched", "watched by a tui")
        plain, watched = contenders = [
            stack.enter_context(kproxy(name, port, directory / name.replace(" ", "-"))) for name in names
        ]
        pool = stack.enter_context(ProcessPoolExecutor(1))
        pool.submit(load, watched.port, 1.0, args.rate).result()
        screen = stack.enter_context(Screen([*TUI, str(watched.port)], env=env))
        start(screen)
        times: Times = {}
        trips: dict[str, list[float]] = {name: [] for name in names}
        tui_cpu = []
        for _ in range(args.rounds):
            for contender in contenders:
                cpu_before = cpu_seconds(contender.pids["relay"]), cpu_seconds(screen.pid)
                loading = pool.submit(load, contender.port, args.seconds, args.rate)
                if contender is watched:
                    press_keys(screen, times, go_on=lambda: not loading.done())  # noqa: B023 - over before the next
                trips[contender.name] += (round_trips := loading.result())
                frames = 2 * BATCH * len(round_trips)
                relayed = (cpu_seconds(contender.pids["relay"]) - cpu_before[0]) / frames * 1e6
                contender.cpu.setdefault("relay", []).append(relayed)
                if contender is watched:
                    tui_cpu.append((cpu_seconds(screen.pid) - cpu_before[1]) / frames * 1e6)
                settle(watched.pids["inspector"], plain.pids["inspector"], screen.pid)
                contender.rate.append(load_fully(contender, FULL_LOAD_S, None))
                settle(watched.pids["inspector"], plain.pids["inspector"], screen.pid)
        print(f"live, {args.rate:,.0f} frames/s; the tui used {statistics.median(tui_cpu):.0f} µs of CPU a frame")
        print(HEAD, *timing_rows(times), sep="\n")
        print(f"    {'':20}{'frames/s at most':>20}{'CPU of the relay':>20}{'round trip':>20}{'p99':>20}")
        for contender in contenders:
            costs = ratio(contender.rate, plain.rate, ""), ratio(contender.cpu["relay"], plain.cpu["relay"], " µs")
            print(f"    {contender.name:20}", *costs, trips_text(trips, contender, plain))


def settle(*pids: int) -> None:
    """Wait until these processes have caught up."""
    cpu_used = 1.0
    while cpu_used > 0.05:
        cpu_before = sum(map(cpu_seconds, pids))
        time.sleep(0.5)
        cpu_used = sum(map(cpu_seconds, pids)) - cpu_before


def trips_text(trips: dict[str, list[float]], contender: Contender, plain: Contender) -> str:
    """Return median and p99 of a proxy's round trips, with the ratios to those of the unwatched proxy."""
    cells = []
    for share in (0.5, 0.99):
        value, base = (sorted(trips[proxy.name])[int(len(trips[proxy.name]) * share)] for proxy in (contender, plain))
        cells.append(f"{value * 1e6:10.0f} µs {value / base:6.2f}")
    return "".join(cells)


def measure_large_trace(args: argparse.Namespace, directory: Path, env: Mapping[str, str]) -> None:
    """Measure a large trace: the first rows, and keys while it is being indexed and afterwards."""
    trace = directory / "trace.jsonl"
    write_trace(trace, args.exchanges)
    with Screen([*TUI, str(trace)], env=env) as screen:
        started = start(screen)
        times_during: Times = {}
        times_after: Times = {}
        press_keys(screen, times_during, views=False)
        filter_and_sort(screen, times_during)
        press_keys(screen, times_during, go_on=lambda: is_reading(screen))
        indexed_at = screen.until(lambda lines: "reading" not in lines[0], timeout=600)
        cpu_used = cpu_seconds(screen.pid)
        for _ in range(args.rounds):
            press_keys(screen, times_after)
            filter_and_sort(screen, times_after)
        highest = Path(f"/proc/{screen.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
    size = trace.stat().st_size / 1e6
    print(f"{2 * args.exchanges:,} frames, {size:.0f} MB: {started}, indexed with all overviews after")
    print(f"{indexed_at - screen.began:.0f} s ({cpu_used:.0f} s of CPU), {int(highest) / 1024:.0f} MiB at most")
    print(HEAD, "  while it is indexed", *timing_rows(times_during), "  after", *timing_rows(times_after), sep="\n")
    if shutil.which("less"):
        with Screen(["less", str(trace)]) as screen:
            shown_at = screen.until(lambda lines: "web-1" in lines[0])
            peer: Times = {}
            press_keys(screen, peer, views=False)
        print(f"  less: first rows after {shown_at - screen.began:.2f} s", *timing_rows(peer), sep="\n")


def is_reading(screen: Screen) -> bool:
    """Return whether the program is still reading the trace."""
    return "reading" in screen.look()[0]


def filter_and_sort(screen: Screen, times: Times) -> None:
    """Filter and sort the rows; record the time until the first results and until all results are shown."""
    screen.press("/")
    time.sleep(0.3)
    screen.write("topic=orders-3")
    time.sleep(0.3)
    started, cpu_before = time.perf_counter(), cpu_seconds(screen.pid)

    def is_begun(lines: list[str]) -> bool:
        return "shown" in lines[0] and sum("orders-3[" in line for line in lines) > 5

    times.setdefault("filter, first", []).append(time_action(screen, lambda: screen.time_key("Enter", is_begun)))
    if not is_reading(screen):
        complete_after = screen.until(lambda lines: "looked at" not in lines[0]) - started
        times.setdefault("filter, all", []).append((complete_after, cpu_seconds(screen.pid) - cpu_before))
    screen.press("Escape")
    screen.until(lambda lines: "shown" not in lines[0])
    for letter, label in (("l", "sort"), ("t", "sort back")):
        screen.press("o")
        screen.until(lambda lines: any("sort by" in line for line in lines))
        unsorted_line = screen.look()[FIRST]

        def is_sorted(lines: list[str], unsorted: str = unsorted_line) -> bool:
            return lines[FIRST] != unsorted and not any("sort by" in line for line in lines)

        timing = time_action(screen, lambda letter=letter, done=is_sorted: screen.time_key(letter, done))
        times.setdefault(label, []).append(timing)


@contextmanager
def silent_port() -> Iterator[tuple[int, socket.socket]]:
    """Yield a port that accepts connections and never answers, and its socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1], listener


def measure_idle(args: argparse.Namespace, directory: Path, env: Mapping[str, str]) -> None:
    """Measure CPU while nothing happens: with a complete trace, with an idle proxy, and while requests wait."""
    seconds = 5 * args.seconds
    trace = directory / "short.jsonl"
    write_trace(trace, 10_000)
    os.utime(trace, (0, 0))  # as if no process were writing to it any more
    print(f"idle, {seconds:.0f} s each:")

    def print_idle_cost(screen: Screen, label: str) -> None:
        start(screen)
        time.sleep(3)
        cpu_before = cpu_seconds(screen.pid)
        time.sleep(seconds)
        share = (cpu_seconds(screen.pid) - cpu_before) / seconds
        print(f"    {label:32}{60 * share:6.2f} s of CPU a minute{100 * share:8.1f} % of a core")

    with Screen([*TUI, str(trace)], env=env) as screen:
        print_idle_cost(screen, "a trace")
    with ExitStack() as stack:
        port, _ = stack.enter_context(process(upstream))
        proxy = stack.enter_context(kproxy("quiet", port, directory / "quiet"))
        load(proxy.port, 1.0, args.rate)
        screen = stack.enter_context(Screen([*TUI, str(proxy.port)], env=env))
        print_idle_cost(screen, "a quiet proxy")
    with ExitStack() as stack:
        port, _ = stack.enter_context(silent_port())
        proxy = stack.enter_context(kproxy("waiting", port, directory / "waiting"))
        client = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
        client.sendall(REQUESTS[: 20 * REQUEST])
        screen = stack.enter_context(Screen([*TUI, str(proxy.port)], env=env))
        print_idle_cost(screen, "twenty requests that wait")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["live", "million", "idle"], help="live, million, idle")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=5000.0, help="frames a second, both ways together")
    parser.add_argument("--exchanges", type=int, default=500_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kproxy-") as name:
        directory = Path(name)
        env = {"XDG_CACHE_HOME": name}
        for part in args.parts:
            {"live": measure_live, "million": measure_large_trace, "idle": measure_idle}[part](args, directory, env)


if __name__ == "__main__":
    main()
