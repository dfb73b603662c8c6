"""Integration suites of clients, run with an existing broker: test -> "passed", or a different outcome."""
