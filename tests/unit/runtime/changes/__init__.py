"""Tests of what shell commands change."""
