"""The limits: the least that a program without Outlast must do to have a message on disk."""
