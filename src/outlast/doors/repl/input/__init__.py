"""User input: completion, history, attachments, `!commands`."""
