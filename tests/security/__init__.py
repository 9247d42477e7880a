"""Findings of the security trial and the tests that show each of them closed."""
