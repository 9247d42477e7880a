"""The pure model of a session. No I/O, no clock, no randomness, no environment: time and ids are arguments.

Terms: *session*: one append-only, hash-chained log. *event*: one fact in it. *seq*: its position, the only order of
events. *key*: makes a write idempotent. *epoch*: generation of the lease that wrote an event. *turn*: from an input to
its answer. *attempt*: one request to a model. *window*: the messages the model sees. *draft*: a reply that is still
streaming. *boundary*: compaction, clear or rewind. *lineage*: a session and all its successors by rotation. *blob*: a
payload too large for an event.
"""
