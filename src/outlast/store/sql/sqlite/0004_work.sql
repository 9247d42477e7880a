-- min_reader: 4

-- What there is to do: the sessions with an unanswered input, an open turn or a boundary asked for, oldest first. An entry
-- is there exactly while the session's header has `work_since`. It moves only when work begins or ends, so a plain append
-- writes nothing here. The headers' new fields (JSON, so no table changes) are filled from the events: store/refolding.py.
CREATE TABLE work (
    owner_id TEXT NOT NULL,
    since INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (owner_id, since, session_id)
) WITHOUT ROWID;
