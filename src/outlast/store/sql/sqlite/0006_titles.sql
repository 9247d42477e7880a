-- min_reader: 6

-- The titles of all sessions that have one and are not deleted, case-folded: a search for a title reads this small table
-- and not every header. An entry changes only with the title, so a plain append writes nothing here.
CREATE TABLE titles (
    sid INTEGER PRIMARY KEY,
    owner_id TEXT NOT NULL,
    folded TEXT NOT NULL
);
