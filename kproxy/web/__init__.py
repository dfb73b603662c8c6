"""The web application of a live session, a trace or a capture: a server behind token-based access control."""
