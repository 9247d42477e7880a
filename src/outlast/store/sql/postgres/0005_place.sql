-- min_reader: 5

-- Where a session's project is: a label, or `@` and a host. Workers take what is at a place that they offer; null, which is
-- what every session has that is there already, is offered by all of them.
ALTER TABLE holdfast.sessions ADD COLUMN place text COLLATE "C";
