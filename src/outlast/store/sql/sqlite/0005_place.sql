-- min_reader: 5

-- Where a session's project is. A header is JSON here, so no table changes; but a Holdfast that does not know the field
-- would drop it with the next append.
SELECT 1;
