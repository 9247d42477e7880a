"""What a session is, without any I/O: no clock, no randomness, no environment; time and ids are arguments.

Words: *session*: one append-only, hash-chained log. *event*: one fact in it. *seq*: its position, the only order there
is. *key*: makes a write idempotent. *epoch*: generation of the lease that wrote it. *turn*: from an input to its
answer. *attempt*: one request to a model. *window*: what the model sees. *draft*: a reply that is still streaming.
*boundary*: compaction, clear or rewind. *lineage*: a session with all that rotated out of it. *blob*: a payload too
large for an event.
"""
