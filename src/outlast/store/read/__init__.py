"""Reading a store: consistent views of its tables, verified logs, decoded events."""
