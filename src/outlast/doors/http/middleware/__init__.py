"""What every request passes: hosts, authentication, limits, response headers."""
