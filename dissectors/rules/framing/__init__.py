"""Family M: limits and framing."""
