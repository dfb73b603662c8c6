"""Run the fault matrix: a real client meets a fault of the built-in broker, and the first report about it is judged.

python -m tests.faults                         all scenarios, half an hour
python -m tests.faults --only Heartbeat:drop   those whose name has this word; repeat it for several
python -m tests.faults --list                  their names

The clients must be installed: `.ci/constraints-peers.txt`, Go, and Java with Maven.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.apis import CLIENTS
from tests.faults.report import summary, table
from tests.faults.run import Outcome, play, prepare
from tests.faults.scenarios import Scenario, select_scenarios


def main() -> int:
    """Run the scenarios; return 0 if the first report named each fault, and runs without a fault were quiet."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="scenarios with this in their name")
    parser.add_argument("--clients", nargs="+", default=[], choices=CLIENTS)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth of them")
    parser.add_argument(
        "-j", "--at-once", type=int, default=3, metavar="N", help="play N at the same time (default: 3)"
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the results here, as Markdown")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep traces and output of each run here")
    parser.add_argument("--list", action="store_true", help="only list them")
    args = parser.parse_args()
    scenarios = select_scenarios(args.only, args.clients)[:: args.every]
    if args.list:
        sys.stdout.writelines(f"{scenario.name}\n" for scenario in scenarios)
        return 0
    for client in {scenario.client for scenario in scenarios}:
        prepare(client)
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(args.at_once) as pool:
        directory = args.keep or Path(temporary)
        outcomes = list(pool.map(lambda scenario: _play(scenario, directory), scenarios))
    if args.table:
        args.table.write_text(table(outcomes))
    sys.stdout.write(summary(outcomes) + "\n")
    return 0 if all(outcome.result in ("first", "quiet") for outcome in outcomes) else 1


def _play(scenario: Scenario, directory: Path) -> Outcome:
    try:
        outcome = play(scenario, directory / scenario.name.replace("/", "_").replace(":", "-"))
    except (AssertionError, TimeoutError) as error:  # a failed start must not end the other runs
        outcome = Outcome(scenario, "unreached", str(error), (), (), None)
    sys.stdout.write(f"{outcome.result:9} {scenario.name}  {outcome.first}\n")
    sys.stdout.flush()
    return outcome


if __name__ == "__main__":
    sys.exit(main())
