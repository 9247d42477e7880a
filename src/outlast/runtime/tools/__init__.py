"""The agent's tools: one file each, the port they implement, and the registry that finds them by name."""
