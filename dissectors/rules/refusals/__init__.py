"""Rules about the error codes of brokers: family E. They are checked after all others, which may explain one better."""
