"""What a model is told before the messages: system prompt, personas, memory files, the identity of the project."""
