"""Interception of traffic, which can be changed in transit: frames in, decisions and bytes out, no I/O."""
