"""Run as ``python -m kproxy``, or by the path of this file, which is what spark-submit takes."""

import sys

if not __package__:  # run by its path: kproxy's `html` and `trace` would hide Python's own modules
    del sys.path[0]

from kproxy.cli import main

if __name__ == "__main__":  # a process that multiprocessing starts also imports this file
    sys.exit(main())
