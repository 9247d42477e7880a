"""Migrations, garbage collection, rebuilt headers."""
