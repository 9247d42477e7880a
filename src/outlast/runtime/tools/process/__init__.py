"""Processes that tools start: supervised, confined, found again after a crash, ended with the turn."""
