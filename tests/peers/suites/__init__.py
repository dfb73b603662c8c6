"""Clients' own integration suites, run against a broker that is there: test -> "passed", or what else it did."""
