"""Run the stories: what happens to traffic, memory, processes and messages if something is killed, stopped or full.

python -m tests.chaos           all of them, with the built-in broker and with a real Kafka
python -m tests.chaos --quick   the stories that run in .ci/run

Further arguments go to pytest: `-n 2` plays two stories at a time, `-k upstream` only those with that word in their
name, and `-rP` lists the number of acknowledged records and the peak memory of each process.
"""

import sys

import pytest


def main(arguments: list[str]) -> int:
    """Run the stories; return the exit status."""
    marker_expression = "chaos and not wide" if "--quick" in arguments else "chaos"
    return pytest.main(
        [
            "tests/chaos",
            "-m",
            marker_expression,
            "--log-level=INFO",
            *(argument for argument in arguments if argument != "--quick"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
