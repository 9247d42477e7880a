"""What becomes of a session's past: boundaries, compaction with its summaries, rewind, and restored files."""
