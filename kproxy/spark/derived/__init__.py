"""What jobs and rules ask of lines in common: requests with their answers, connections, members, retries, stalls."""
