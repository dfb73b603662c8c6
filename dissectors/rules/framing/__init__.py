"""M: limits and framing."""
