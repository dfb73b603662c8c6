"""Rules about the error codes of brokers: family E. They are checked last: other rules may explain an error better."""
