"""Clients' integration suites, run with an existing broker. Each returns the outcomes of tests, such as "passed"."""
