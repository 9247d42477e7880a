"""The tools that come with Outlast, one file each."""
