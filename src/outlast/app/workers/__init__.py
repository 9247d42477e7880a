"""The worker pool: claims sessions that have work and runs their turns."""
