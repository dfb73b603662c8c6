"""Rules about responses that contradict each other, and clients that contradict themselves. They belong to family S."""
