-- min_reader: 1
-- The log. Everything lies in its own schema, so that it can share a database with other programs. Text is compared byte
-- by byte (COLLATE "C").

CREATE TABLE holdfast.migrations (
    number int PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    min_reader int NOT NULL,
    at bigint NOT NULL
);

-- One row a session, tombstones included: the header, then the lease. Every append updates its row: there is room in each
-- page for the next version, and lists are ordered by `activity` first (updated_at >> 16, about 1/15 s), whose index an
-- append seldom touches, so that most updates stay within the page.
CREATE TABLE holdfast.sessions (
    session_id text COLLATE "C" PRIMARY KEY,
    owner_id text COLLATE "C" NOT NULL,
    root_id text COLLATE "C" NOT NULL,
    base_id text COLLATE "C",
    base_seq bigint NOT NULL,
    parent_session_id text COLLATE "C",
    depth bigint NOT NULL,
    project_key text COLLATE "C",
    project_root text COLLATE "C",
    project_fingerprint text COLLATE "C",
    title text COLLATE "C",
    titled boolean NOT NULL,
    state text COLLATE "C" NOT NULL,
    rotated_to text COLLATE "C",
    model text COLLATE "C",
    persona text COLLATE "C",
    message_count bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    pending_count bigint NOT NULL,
    pending_text text COLLATE "C",
    pending_at bigint,
    turn text COLLATE "C",
    boundary_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    head_hash bytea NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    last_message_at bigint,
    epoch bigint NOT NULL,
    deleted_at bigint,
    deleted_by text COLLATE "C",
    lease_token text COLLATE "C",
    lease_holder text COLLATE "C",
    lease_since bigint NOT NULL,
    lease_expires bigint NOT NULL,
    lease_boot text COLLATE "C",
    activity bigint NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX sessions_by_activity ON holdfast.sessions (owner_id, activity) WHERE deleted_at IS NULL;

CREATE INDEX sessions_by_base ON holdfast.sessions (base_id) WHERE base_id IS NOT NULL;

CREATE TABLE holdfast.events (
    session_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    v int NOT NULL,
    at bigint NOT NULL,
    epoch bigint,
    redacted boolean NOT NULL DEFAULT false,
    kind text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    turn text COLLATE "C",
    key text COLLATE "C",
    enc text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,
    body bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE holdfast.keys (
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    count bigint NOT NULL,
    digest bytea NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE TABLE holdfast.lineage (
    root_id text COLLATE "C" PRIMARY KEY,
    tip_id text COLLATE "C" NOT NULL
);

-- The draft of the open attempt.
CREATE TABLE holdfast.chunks (
    session_id text COLLATE "C" NOT NULL,
    n bigint NOT NULL,
    attempt_seq bigint NOT NULL,
    part text COLLATE "C" NOT NULL,
    data bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (session_id, n)
);

CREATE TABLE holdfast.routes (
    route text COLLATE "C" PRIMARY KEY,
    session_id text COLLATE "C" NOT NULL
);

CREATE INDEX routes_by_session ON holdfast.routes (session_id);

CREATE TABLE holdfast.blobs (
    session_id text COLLATE "C" NOT NULL,
    sha256 text COLLATE "C" NOT NULL,
    chunk bigint NOT NULL,
    at bigint NOT NULL,
    data bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (session_id, sha256, chunk)
);

CREATE TABLE holdfast.snapshots (
    session_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    fold_version bigint NOT NULL,
    state bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (session_id, seq)
);

-- The store's wall clock, microseconds UTC.
CREATE FUNCTION holdfast.clock() RETURNS bigint LANGUAGE sql VOLATILE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- What few events change in their session's header.
CREATE TYPE holdfast.header_change AS (
    input_tokens bigint,
    output_tokens bigint,
    title text,
    state text,
    rotated_to text,
    model text,
    persona text,
    turn_begun text,
    turn_over boolean,
    boundary boolean
);

-- One event of an append on its way into the log. `append` numbers the append it belongs to, `round` is its place among
-- the batch's events for its session, `chained` what its hash is made of beside seq and epoch. From `key` on: of the
-- append as a whole, null in all but its first event. `fresh`: the key was made for this very try, nobody can have it.
CREATE TYPE holdfast.new_event AS (
    append bigint,
    round bigint,
    session_id text,
    kind text,
    v bigint,
    at bigint,
    actor text,
    turn text,
    enc text,
    body bytea,
    chained bytea,
    messages bigint,
    pending bigint,
    pending_text text,
    first_title text,
    change holdfast.header_change,
    closes_attempt boolean,
    touch boolean,
    lease_token text,
    lease_epoch bigint,
    key text,
    fresh boolean,
    scope text,
    append_digest bytea,
    events bigint,
    expect bigint,
    if_rotated boolean,
    if_ended boolean
);

-- The hot path: appends of many callers, each decided on its own, all made durable by the one commit that follows. It
-- works in rounds, one event a session in each, and every round is one statement over all sessions. The sums in the
-- header are those of core/header.py.
--
-- Returns the numbers of the appends that were written, then the seqs of their last events in the same order. An append
-- that is not among them was not written, and the engine finds out why: it gives the first receipt of a known key again,
-- or the exact refusal. A key that turned up while we waited for its header violates the uniqueness of keys: nothing is
-- written, and the same batch is tried again.
--
-- The settings: nobody waits long for a stranger's lock; plans are made once, and not with the sequential scans that look
-- cheap while the store is new.
CREATE FUNCTION holdfast.append(
    new_events holdfast.new_event[], rounds bigint, changes boolean, closes boolean
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '5s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    appends bigint[];
    seqs bigint[];
    now_us bigint := holdfast.clock();
    ignored text;
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        ignored := set_config('synchronous_commit', 'on', true);
    END IF;
    -- Everybody locks headers in the same order, so that two batches cannot deadlock each other.
    PERFORM FROM holdfast.sessions s WHERE s.session_id = ANY (ARRAY(SELECT e.session_id FROM unnest(new_events) e))
        ORDER BY s.session_id FOR UPDATE;

    FOR this_round IN 1 .. rounds LOOP
        WITH moved AS (
            UPDATE holdfast.sessions s SET
                last_seq = s.last_seq + 1,
                head_hash = sha256(s.head_hash || int8send(s.last_seq + 1)
                    || int8send(CASE WHEN e.lease_token IS NULL THEN -1 ELSE s.epoch END) || e.chained),
                message_count = s.message_count + e.messages,
                last_message_at = CASE e.messages WHEN 0 THEN s.last_message_at ELSE e.at END,
                title = coalesce(s.title, e.first_title),
                pending_count = greatest(0, s.pending_count + e.pending),
                pending_text = CASE WHEN s.pending_count + e.pending > 0 THEN coalesce(e.pending_text, s.pending_text) END,
                pending_at = CASE WHEN s.pending_count + e.pending > 0
                    THEN CASE WHEN e.pending_text IS NULL THEN s.pending_at ELSE e.at END END,
                updated_at = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) ELSE s.updated_at END,
                activity = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) >> 16 ELSE s.activity END
            FROM unnest(new_events) e
            WHERE e.round = this_round AND s.session_id = e.session_id
                AND CASE WHEN e.key IS NULL THEN e.append = ANY (appends) ELSE
                    s.deleted_at IS NULL
                    AND (e.lease_token IS NULL OR (s.lease_token = e.lease_token AND e.lease_epoch IN (0, s.epoch)))
                    AND (s.rotated_to IS NULL OR e.if_rotated)
                    AND (s.state <> 'ended' OR e.if_ended)
                    AND (e.expect IS NULL OR e.expect = s.last_seq)
                    AND (e.fresh OR NOT EXISTS (
                        SELECT FROM holdfast.keys k WHERE k.scope = coalesce(e.scope, s.root_id) AND k.key = e.key
                    ))
                END
            RETURNING e.append, e.session_id, e.kind, e.v, e.at, e.actor, e.turn, e.enc, e.body, e.key, e.events,
                e.append_digest, s.last_seq, s.head_hash, coalesce(e.scope, s.root_id) AS scope,
                CASE WHEN e.lease_token IS NOT NULL THEN s.epoch END AS epoch
        ), keyed AS (
            INSERT INTO holdfast.keys (scope, key, session_id, seq, count, digest)
            SELECT scope, key, session_id, last_seq + events - 1, events, append_digest FROM moved
            WHERE key IS NOT NULL
        ), logged AS (
            INSERT INTO holdfast.events (session_id, seq, v, at, epoch, kind, actor, turn, key, enc, hash, body)
            SELECT session_id, last_seq, v, at, epoch, kind, actor, turn, key, enc, head_hash, body FROM moved
        )
        SELECT appends || array_agg(append) FILTER (WHERE key IS NOT NULL),
            seqs || array_agg(last_seq + events - 1) FILTER (WHERE key IS NOT NULL)
        INTO appends, seqs FROM moved;

        IF changes THEN
            UPDATE holdfast.sessions s SET
                input_tokens = s.input_tokens + (e.change).input_tokens,
                output_tokens = s.output_tokens + (e.change).output_tokens,
                title = coalesce((e.change).title, s.title),
                titled = s.titled OR (e.change).title IS NOT NULL,
                state = coalesce((e.change).state, s.state),
                rotated_to = coalesce((e.change).rotated_to, s.rotated_to),
                model = coalesce((e.change).model, s.model),
                persona = coalesce((e.change).persona, s.persona),
                turn = CASE WHEN NOT (e.change).turn_over THEN coalesce((e.change).turn_begun, s.turn) END,
                boundary_seq = CASE WHEN (e.change).boundary THEN s.last_seq ELSE s.boundary_seq END
            FROM unnest(new_events) e
            WHERE e.round = this_round AND s.session_id = e.session_id AND e.append = ANY (appends)
                AND e.change IS DISTINCT FROM NULL;
        END IF;
    END LOOP;

    IF closes THEN
        DELETE FROM holdfast.chunks c USING unnest(new_events) e
        WHERE c.session_id = e.session_id AND e.closes_attempt AND e.append = ANY (appends);
    END IF;
    RETURN appends || seqs;
END
$$;

-- The same for one event of one append, which is what a lone caller sends, without what many need: a fifth faster.
-- Returns its seq, or null.
CREATE FUNCTION holdfast.append_one(e holdfast.new_event) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '5s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    moved record;
    now_us bigint := holdfast.clock();
    ignored text;
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        ignored := set_config('synchronous_commit', 'on', true);
    END IF;

    UPDATE holdfast.sessions s SET
        last_seq = s.last_seq + 1,
        head_hash = sha256(s.head_hash || int8send(s.last_seq + 1)
            || int8send(CASE WHEN e.lease_token IS NULL THEN -1 ELSE s.epoch END) || e.chained),
        message_count = s.message_count + e.messages,
        last_message_at = CASE e.messages WHEN 0 THEN s.last_message_at ELSE e.at END,
        title = coalesce(s.title, e.first_title),
        pending_count = greatest(0, s.pending_count + e.pending),
        pending_text = CASE WHEN s.pending_count + e.pending > 0 THEN coalesce(e.pending_text, s.pending_text) END,
        pending_at = CASE WHEN s.pending_count + e.pending > 0
            THEN CASE WHEN e.pending_text IS NULL THEN s.pending_at ELSE e.at END END,
        updated_at = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) ELSE s.updated_at END,
        activity = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) >> 16 ELSE s.activity END
    WHERE s.session_id = e.session_id
        AND s.deleted_at IS NULL
        AND (e.lease_token IS NULL OR (s.lease_token = e.lease_token AND e.lease_epoch IN (0, s.epoch)))
        AND (s.rotated_to IS NULL OR e.if_rotated)
        AND (s.state <> 'ended' OR e.if_ended)
        AND (e.expect IS NULL OR e.expect = s.last_seq)
        AND (e.fresh OR NOT EXISTS (
            SELECT FROM holdfast.keys k WHERE k.scope = coalesce(e.scope, s.root_id) AND k.key = e.key
        ))
    RETURNING s.last_seq, s.head_hash, s.root_id, CASE WHEN e.lease_token IS NOT NULL THEN s.epoch END AS epoch
    INTO moved;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;

    INSERT INTO holdfast.keys (scope, key, session_id, seq, count, digest)
    VALUES (coalesce(e.scope, moved.root_id), e.key, e.session_id, moved.last_seq, 1, e.append_digest);
    INSERT INTO holdfast.events (session_id, seq, v, at, epoch, kind, actor, turn, key, enc, hash, body)
    VALUES (e.session_id, moved.last_seq, e.v, e.at, moved.epoch, e.kind, e.actor, e.turn, e.key, e.enc,
        moved.head_hash, e.body);

    IF e.change IS DISTINCT FROM NULL THEN
        UPDATE holdfast.sessions s SET
            input_tokens = s.input_tokens + (e.change).input_tokens,
            output_tokens = s.output_tokens + (e.change).output_tokens,
            title = coalesce((e.change).title, s.title),
            titled = s.titled OR (e.change).title IS NOT NULL,
            state = coalesce((e.change).state, s.state),
            rotated_to = coalesce((e.change).rotated_to, s.rotated_to),
            model = coalesce((e.change).model, s.model),
            persona = coalesce((e.change).persona, s.persona),
            turn = CASE WHEN NOT (e.change).turn_over THEN coalesce((e.change).turn_begun, s.turn) END,
            boundary_seq = CASE WHEN (e.change).boundary THEN s.last_seq ELSE s.boundary_seq END
        WHERE s.session_id = e.session_id;
    END IF;
    IF e.closes_attempt THEN
        DELETE FROM holdfast.chunks c WHERE c.session_id = e.session_id;
    END IF;
    RETURN moved.last_seq;
END
$$;
