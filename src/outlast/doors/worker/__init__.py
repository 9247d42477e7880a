"""A worker: a process that only runs turns. It has no door for people; a scrape and signals are all it listens to."""
