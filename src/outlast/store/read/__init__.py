"""Reading a store: snapshots of its tables, verified logs, decoded events."""
