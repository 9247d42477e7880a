"""The sandbox of shell commands: one port, one adapter per tier, and what a command sees inside."""
