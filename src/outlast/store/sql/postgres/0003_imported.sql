-- min_reader: 3

-- Events up to `imported_seq` came from a file; what they permit does not count here.
ALTER TABLE holdfast.sessions ADD COLUMN imported_seq bigint NOT NULL DEFAULT 0;
