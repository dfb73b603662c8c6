"""The APIs of the broker, a file each: what it does, versions, and what it leaves out."""
