"""The tools of the agent: one file each, the port they all follow, and the registry that knows them by name."""
