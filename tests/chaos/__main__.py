"""Run the stories: effects on traffic, memory, processes and messages if something is killed, stopped or full.

python -m tests.chaos           all of them, with the built-in broker and with a real Kafka
python -m tests.chaos --quick   the part that runs in .ci/run

Further arguments are those of pytest: `-n 2` plays two at a time, `-k upstream` only those with that word, `-rP` lists
how much was acknowledged, and the peak memory of each process.
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
