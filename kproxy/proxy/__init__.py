"""The relay: listeners, relayed connections, and the tap that shows their bytes to the inspector's process."""
