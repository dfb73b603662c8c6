"""One page of a capture or trace that opens anywhere, without a request to anywhere."""
