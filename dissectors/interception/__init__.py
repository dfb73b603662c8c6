"""Traffic that may be changed on its way: frames in, decisions and bytes out, without I/O."""
