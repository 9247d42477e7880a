"""What the user types: completion, history, attachments, `!commands`."""
