"""The limits: the least that a program without Holdfast must do to have a message on disk."""
