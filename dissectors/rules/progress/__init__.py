"""Rules about requests that are repeated without progress. The rules belong to family S."""
