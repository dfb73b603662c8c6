"""Rules about requests that are repeated without progress. They belong to family S."""
