"""Hypothesis profiles: the same examples each time in CI (CI=true), others each time elsewhere.

`pytest --hypothesis-profile=night` takes its time.
"""

import os

from hypothesis import settings

# No deadline: a layout is compiled at its first use, and machines differ.
settings.register_profile("ci", derandomize=True, max_examples=100, deadline=None, database=None, print_blob=True)
settings.register_profile("local", max_examples=50, deadline=None)
settings.register_profile("night", max_examples=5_000, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")
