"""Checks and headers that apply to every request: hosts, authentication, limits, response headers."""
