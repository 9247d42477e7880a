"""A worker: a process that only runs turns. It has no user interface; it serves metrics and reacts to signals."""
