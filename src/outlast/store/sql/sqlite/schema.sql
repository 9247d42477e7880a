-- The schema as the migrations leave it, for people to read. Nothing runs this file but the test that compares the two.

-- The log. An event's row id is sid << 32 | seq: one compact key, one page written per append.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;

CREATE TABLE migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    min_reader INTEGER NOT NULL,
    at INTEGER NOT NULL
);

-- One row a session, tombstones included. `header` is the whole header as JSON with its CRC-32 beside it; the columns
-- before it are the parts of it that SQL selects by. `listed_at` is `updated_at` as of when the session last became the
-- first of its list: while it stays first, the index need not move.
CREATE TABLE sessions (
    sid INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    owner_id TEXT NOT NULL,
    listed_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    project_key TEXT,
    base_id TEXT,
    deleted_at INTEGER,
    header BLOB NOT NULL,
    crc INTEGER NOT NULL
);

CREATE INDEX sessions_by_activity ON sessions (owner_id, listed_at, session_id, state, project_key)
    WHERE deleted_at IS NULL;

CREATE INDEX sessions_by_base ON sessions (base_id) WHERE base_id IS NOT NULL;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    v INTEGER NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    turn TEXT,
    key TEXT,
    epoch INTEGER,
    enc TEXT NOT NULL,
    body BLOB NOT NULL,
    hash BLOB NOT NULL,
    redacted INTEGER
);

CREATE TABLE keys (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    count INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;

CREATE TABLE lineage (
    root_id TEXT PRIMARY KEY,
    tip_id TEXT NOT NULL
) WITHOUT ROWID;

-- The draft of the open attempt; id is sid << 32 | n.
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    attempt_seq INTEGER NOT NULL,
    part TEXT NOT NULL,
    data BLOB NOT NULL
);

CREATE TABLE routes (
    route TEXT PRIMARY KEY,
    session_id TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX routes_by_session ON routes (session_id);

CREATE TABLE blobs (
    sid INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    chunk INTEGER NOT NULL,
    at INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (sid, sha256, chunk)
);

CREATE TABLE snapshots (
    sid INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    fold_version INTEGER NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (sid, seq)
);

-- What there is to do: the sessions with an unanswered input, an open turn or a boundary asked for, oldest first. An entry
-- is there exactly while the session's header has `work_since`. It moves only when work begins or ends, so a plain append
-- writes nothing here.
CREATE TABLE work (
    owner_id TEXT NOT NULL,
    since INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    PRIMARY KEY (owner_id, since, session_id)
) WITHOUT ROWID;

-- The titles of all sessions that have one and are not deleted, case-folded: a search for a title reads this small table
-- and not every header. An entry changes only with the title, so a plain append writes nothing here.
CREATE TABLE titles (
    sid INTEGER PRIMARY KEY,
    owner_id TEXT NOT NULL,
    folded TEXT NOT NULL
);
