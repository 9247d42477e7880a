"""What shell commands change in the project: looks before and after a command, kept pre-images, and change sets."""
