"""``python -m kproxy``, or the path of this file, which is what spark-submit takes."""

import sys

if not __package__:  # then Python finds first what lies beside it, and its own `html` and `trace` no more
    del sys.path[0]

from kproxy.cli import main

if __name__ == "__main__":  # a process that multiprocessing starts imports this file, too
    sys.exit(main())
