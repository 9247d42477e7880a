-- min_reader: 6

-- The project has another name since. Everything keeps its place, its rows and its owner; only the schema gets the name.
-- Functions hold the schema's name as text, so they are made anew, and their types with them: whoever still runs the
-- program of before finds nothing under either name, and writes nothing.
ALTER SCHEMA holdfast RENAME TO outlast;

-- What is found by searching can always be made again, so of two it is the older that goes.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'outlast_search') THEN
        DROP SCHEMA IF EXISTS holdfast_search CASCADE;
    ELSIF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'holdfast_search') THEN
        ALTER SCHEMA holdfast_search RENAME TO outlast_search;
    END IF;
END
$$;

DROP FUNCTION outlast.append;
DROP FUNCTION outlast.append_one;
DROP TYPE outlast.new_event;
DROP TYPE outlast.header_change;

-- What few events change in their session's header.
CREATE TYPE outlast.header_change AS (
    input_tokens bigint,
    output_tokens bigint,
    title text,
    state text,
    rotated_to text,
    model text,
    persona text,
    turn_begun text,
    turn_over boolean,
    boundary boolean,
    reported boolean,
    plan_mode boolean,
    requested bigint,
    settled bigint
);

-- One event of an append on its way into the log. `append` numbers the append it belongs to, `round` is its place among
-- the batch's events for its session, `chained` what its hash is made of beside seq and epoch. From `key` on: of the
-- append as a whole, null in all but its first event. `fresh`: the key was made for this very try, nobody can have it.
CREATE TYPE outlast.new_event AS (
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
    estimated bigint,
    first_title text,
    change outlast.header_change,
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
CREATE FUNCTION outlast.append(
    new_events outlast.new_event[], rounds bigint, changes boolean, closes boolean
) RETURNS bigint[] LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '5s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    appends bigint[];
    seqs bigint[];
    now_us bigint := outlast.clock();
    ignored text;
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        ignored := set_config('synchronous_commit', 'on', true);
    END IF;
    -- Everybody locks headers in the same order, so that two batches cannot deadlock each other.
    PERFORM FROM outlast.sessions s WHERE s.session_id = ANY (ARRAY(SELECT e.session_id FROM unnest(new_events) e))
        ORDER BY s.session_id FOR UPDATE;

    FOR this_round IN 1 .. rounds LOOP
        WITH moved AS (
            UPDATE outlast.sessions s SET
                last_seq = s.last_seq + 1,
                head_hash = sha256(s.head_hash || int8send(s.last_seq + 1)
                    || int8send(CASE WHEN e.lease_token IS NULL THEN -1 ELSE s.epoch END) || e.chained),
                message_count = s.message_count + e.messages,
                estimated_tokens = s.estimated_tokens + e.estimated,
                last_message_at = CASE e.messages WHEN 0 THEN s.last_message_at ELSE e.at END,
                title = coalesce(s.title, e.first_title),
                pending_count = greatest(0, s.pending_count + e.pending),
                pending_text = CASE WHEN s.pending_count + e.pending > 0 THEN coalesce(e.pending_text, s.pending_text) END,
                pending_at = CASE WHEN s.pending_count + e.pending > 0
                    THEN CASE WHEN e.pending_text IS NULL THEN s.pending_at ELSE e.at END END,
                work_since = CASE WHEN e.pending = 0 THEN s.work_since WHEN s.state = 'ended' OR s.was_ended THEN NULL
                    WHEN s.pending_count + e.pending > 0 OR s.turn IS NOT NULL OR s.requests <> 0
                    THEN coalesce(s.work_since, e.at) END,
                updated_at = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) ELSE s.updated_at END,
                activity = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) >> 16 ELSE s.activity END
            FROM unnest(new_events) e
            WHERE e.round = this_round AND s.session_id = e.session_id
                AND CASE WHEN e.key IS NULL THEN e.append = ANY (appends) ELSE
                    s.deleted_at IS NULL
                    AND (e.lease_token IS NULL OR (s.lease_token = e.lease_token AND e.lease_epoch IN (0, s.epoch)))
                    AND (s.rotated_to IS NULL OR e.if_rotated)
                    AND ((s.state <> 'ended' AND NOT s.was_ended) OR e.if_ended)
                    AND (e.expect IS NULL OR e.expect = s.last_seq)
                    AND (e.fresh OR NOT EXISTS (
                        SELECT FROM outlast.keys k WHERE k.scope = coalesce(e.scope, s.root_id) AND k.key = e.key
                    ))
                END
            RETURNING e.append, e.session_id, e.kind, e.v, e.at, e.actor, e.turn, e.enc, e.body, e.key, e.events,
                e.append_digest, s.last_seq, s.head_hash, coalesce(e.scope, s.root_id) AS scope,
                CASE WHEN e.lease_token IS NOT NULL THEN s.epoch END AS epoch
        ), keyed AS (
            INSERT INTO outlast.keys (scope, key, session_id, seq, count, digest)
            SELECT scope, key, session_id, last_seq + events - 1, events, append_digest FROM moved
            WHERE key IS NOT NULL
        ), logged AS (
            INSERT INTO outlast.events (session_id, seq, v, at, epoch, kind, actor, turn, key, enc, hash, body)
            SELECT session_id, last_seq, v, at, epoch, kind, actor, turn, key, enc, head_hash, body FROM moved
        )
        SELECT appends || array_agg(append) FILTER (WHERE key IS NOT NULL),
            seqs || array_agg(last_seq + events - 1) FILTER (WHERE key IS NOT NULL)
        INTO appends, seqs FROM moved;

        IF changes THEN
            UPDATE outlast.sessions s SET
                input_tokens = s.input_tokens + (e.change).input_tokens,
                output_tokens = s.output_tokens + (e.change).output_tokens,
                estimated_tokens = CASE WHEN (e.change).reported THEN 0 ELSE s.estimated_tokens END,
                title = coalesce((e.change).title, s.title),
                titled = s.titled OR (e.change).title IS NOT NULL,
                state = CASE (e.change).state WHEN 'unarchived'
                    THEN CASE WHEN s.state <> 'archived' THEN s.state WHEN s.was_ended THEN 'ended' ELSE 'active' END
                    ELSE coalesce((e.change).state, s.state) END,
                was_ended = CASE WHEN (e.change).state IS NULL THEN s.was_ended
                    ELSE (e.change).state = 'archived' AND (s.was_ended OR s.state = 'ended') END,
                rotated_to = coalesce((e.change).rotated_to, s.rotated_to),
                model = coalesce((e.change).model, s.model),
                persona = coalesce((e.change).persona, s.persona),
                plan_mode = coalesce((e.change).plan_mode, s.plan_mode),
                turn = CASE WHEN NOT (e.change).turn_over THEN coalesce((e.change).turn_begun, s.turn) END,
                boundary_seq = CASE WHEN (e.change).boundary THEN s.last_seq ELSE s.boundary_seq END,
                requests = s.requests & ~(e.change).settled | (e.change).requested,
                work_since = CASE
                    WHEN CASE (e.change).state WHEN 'active' THEN false WHEN 'ended' THEN true
                        ELSE s.was_ended OR s.state = 'ended' END THEN NULL
                    WHEN s.pending_count > 0 OR (s.requests & ~(e.change).settled | (e.change).requested) <> 0
                        OR (NOT (e.change).turn_over AND coalesce((e.change).turn_begun, s.turn) IS NOT NULL)
                    THEN coalesce(s.work_since, e.at) END
            FROM unnest(new_events) e
            WHERE e.round = this_round AND s.session_id = e.session_id AND e.append = ANY (appends)
                AND e.change IS DISTINCT FROM NULL;
        END IF;
    END LOOP;

    IF closes THEN
        DELETE FROM outlast.chunks c USING unnest(new_events) e
        WHERE c.session_id = e.session_id AND e.closes_attempt AND e.append = ANY (appends);
    END IF;
    RETURN appends || seqs;
END
$$;

-- The same for one event of one append, which is what a lone caller sends, without what many need: a fifth faster.
-- Returns its seq, or null.
CREATE FUNCTION outlast.append_one(e outlast.new_event) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET lock_timeout = '5s' SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    moved record;
    now_us bigint := outlast.clock();
    ignored text;
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        ignored := set_config('synchronous_commit', 'on', true);
    END IF;

    UPDATE outlast.sessions s SET
        last_seq = s.last_seq + 1,
        head_hash = sha256(s.head_hash || int8send(s.last_seq + 1)
            || int8send(CASE WHEN e.lease_token IS NULL THEN -1 ELSE s.epoch END) || e.chained),
        message_count = s.message_count + e.messages,
        estimated_tokens = s.estimated_tokens + e.estimated,
        last_message_at = CASE e.messages WHEN 0 THEN s.last_message_at ELSE e.at END,
        title = coalesce(s.title, e.first_title),
        pending_count = greatest(0, s.pending_count + e.pending),
        pending_text = CASE WHEN s.pending_count + e.pending > 0 THEN coalesce(e.pending_text, s.pending_text) END,
        pending_at = CASE WHEN s.pending_count + e.pending > 0
            THEN CASE WHEN e.pending_text IS NULL THEN s.pending_at ELSE e.at END END,
        work_since = CASE WHEN e.pending = 0 THEN s.work_since WHEN s.state = 'ended' OR s.was_ended THEN NULL
            WHEN s.pending_count + e.pending > 0 OR s.turn IS NOT NULL OR s.requests <> 0
            THEN coalesce(s.work_since, e.at) END,
        updated_at = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) ELSE s.updated_at END,
        activity = CASE WHEN e.touch THEN greatest(now_us, s.updated_at + 1) >> 16 ELSE s.activity END
    WHERE s.session_id = e.session_id
        AND s.deleted_at IS NULL
        AND (e.lease_token IS NULL OR (s.lease_token = e.lease_token AND e.lease_epoch IN (0, s.epoch)))
        AND (s.rotated_to IS NULL OR e.if_rotated)
        AND ((s.state <> 'ended' AND NOT s.was_ended) OR e.if_ended)
        AND (e.expect IS NULL OR e.expect = s.last_seq)
        AND (e.fresh OR NOT EXISTS (
            SELECT FROM outlast.keys k WHERE k.scope = coalesce(e.scope, s.root_id) AND k.key = e.key
        ))
    RETURNING s.last_seq, s.head_hash, s.root_id, CASE WHEN e.lease_token IS NOT NULL THEN s.epoch END AS epoch
    INTO moved;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;

    INSERT INTO outlast.keys (scope, key, session_id, seq, count, digest)
    VALUES (coalesce(e.scope, moved.root_id), e.key, e.session_id, moved.last_seq, 1, e.append_digest);
    INSERT INTO outlast.events (session_id, seq, v, at, epoch, kind, actor, turn, key, enc, hash, body)
    VALUES (e.session_id, moved.last_seq, e.v, e.at, moved.epoch, e.kind, e.actor, e.turn, e.key, e.enc,
        moved.head_hash, e.body);

    IF e.change IS DISTINCT FROM NULL THEN
        UPDATE outlast.sessions s SET
            input_tokens = s.input_tokens + (e.change).input_tokens,
            output_tokens = s.output_tokens + (e.change).output_tokens,
            estimated_tokens = CASE WHEN (e.change).reported THEN 0 ELSE s.estimated_tokens END,
            title = coalesce((e.change).title, s.title),
            titled = s.titled OR (e.change).title IS NOT NULL,
            state = CASE (e.change).state WHEN 'unarchived'
                THEN CASE WHEN s.state <> 'archived' THEN s.state WHEN s.was_ended THEN 'ended' ELSE 'active' END
                ELSE coalesce((e.change).state, s.state) END,
            was_ended = CASE WHEN (e.change).state IS NULL THEN s.was_ended
                ELSE (e.change).state = 'archived' AND (s.was_ended OR s.state = 'ended') END,
            rotated_to = coalesce((e.change).rotated_to, s.rotated_to),
            model = coalesce((e.change).model, s.model),
            persona = coalesce((e.change).persona, s.persona),
            plan_mode = coalesce((e.change).plan_mode, s.plan_mode),
            turn = CASE WHEN NOT (e.change).turn_over THEN coalesce((e.change).turn_begun, s.turn) END,
            boundary_seq = CASE WHEN (e.change).boundary THEN s.last_seq ELSE s.boundary_seq END,
            requests = s.requests & ~(e.change).settled | (e.change).requested,
            work_since = CASE
                WHEN CASE (e.change).state WHEN 'active' THEN false WHEN 'ended' THEN true
                    ELSE s.was_ended OR s.state = 'ended' END THEN NULL
                WHEN s.pending_count > 0 OR (s.requests & ~(e.change).settled | (e.change).requested) <> 0
                    OR (NOT (e.change).turn_over AND coalesce((e.change).turn_begun, s.turn) IS NOT NULL)
                THEN coalesce(s.work_since, e.at) END
        WHERE s.session_id = e.session_id;
    END IF;
    IF e.closes_attempt THEN
        DELETE FROM outlast.chunks c WHERE c.session_id = e.session_id;
    END IF;
    RETURN moved.last_seq;
END
$$;
