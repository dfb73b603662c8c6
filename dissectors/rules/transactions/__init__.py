"""Family T: transactions that stay open, fence each other or fail."""
