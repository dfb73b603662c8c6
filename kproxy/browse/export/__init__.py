"""What is taken elsewhere: copies of an exchange, traces of what is shown."""
