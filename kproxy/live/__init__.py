"""The live proxy: the relay in one process, inspection in another."""
