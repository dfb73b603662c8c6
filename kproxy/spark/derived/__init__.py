"""Intermediate results of jobs and rules: exchanges, connections, group events, retries, clusters."""
