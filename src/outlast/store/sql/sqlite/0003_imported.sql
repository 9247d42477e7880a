-- min_reader: 3

-- Events up to `imported_seq` came from a file; what they permit does not count here. A header is JSON
-- here, so no table changes; but a Holdfast that does not know the field would drop it with the next append.
SELECT 1;
