"""The one place that names the version and the distribution; the build reads the version too."""

DISTRIBUTION = "outlast"
"""What `pip install` is told."""
__version__ = "0.1.0"
