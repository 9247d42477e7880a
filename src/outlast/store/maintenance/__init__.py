"""Migrations, garbage collection and recomputed headers."""
