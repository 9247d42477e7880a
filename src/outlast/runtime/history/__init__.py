"""Changes to a session's visible history: boundaries, compaction with its summaries, rewind, and restored files."""
