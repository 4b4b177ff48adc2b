-- What `fleet` reads of a run: who started it, its sessions, its compactions.

CREATE INDEX event_sessions ON faber_ledger.event (project, run_id, seq, id)
  WHERE type IN ('run_started', 'run_adopted', 'session_started', 'session_ended', 'compaction_completed', 'event_redacted');

-- The members of a state that `fleet` shows, as JSON, of each text 200 characters at most; NULL for a member that is no
-- text and no number of that length. It never raises.
CREATE FUNCTION faber_ledger.state_at_a_glance(said text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := faber_ledger.parse_json(said);
BEGIN
  RETURN (
    SELECT jsonb_object_agg(name, CASE
      WHEN jsonb_typeof(state->name) = 'string' THEN to_jsonb(left(state->>name, 200))
      WHEN jsonb_typeof(state->name) = 'number' AND char_length(state->>name) <= 200 THEN state->name
    END)
    FROM unnest(ARRAY['work_id', 'status', 'current_phase']) AS name
  );
END
$$;

-- The newest event of each run. A run costs two look-ups in an index, however many events it has: `DISTINCT run_id` would
-- read all of them. The names of refused events, which only hold a place, sort behind all ids.
CREATE FUNCTION faber_ledger.newest_of_runs(of_project text)
RETURNS TABLE (id text, run_id text, type text, at text, writer text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  WITH RECURSIVE run AS (
    (
      SELECT event.run_id FROM faber_ledger.event WHERE faber_ledger.sees(of_project) AND project = of_project
      ORDER BY event.run_id LIMIT 1
    )
    UNION ALL
    SELECT next.run_id FROM run CROSS JOIN LATERAL (
      SELECT event.run_id FROM faber_ledger.event WHERE project = of_project AND event.run_id > run.run_id
      ORDER BY event.run_id LIMIT 1
    ) AS next
  )
  SELECT newest.* FROM run CROSS JOIN LATERAL (
    SELECT event.id, event.run_id, event.type, event.at, event.writer FROM faber_ledger.event
    WHERE project = of_project AND event.run_id = run.run_id AND event.id < 'a' ORDER BY event.id DESC LIMIT 1
  ) AS newest
$$;

-- What tells about the sessions of runs, in the order of each run's log.
CREATE FUNCTION faber_ledger.session_events(of_project text, of_runs text[]) RETURNS SETOF faber_ledger.event
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT event.* FROM faber_ledger.event
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = ANY (of_runs) AND type IN (
    'run_started', 'run_adopted', 'session_started', 'session_ended', 'compaction_completed', 'event_redacted'
  )
  ORDER BY run_id, seq, id
$$;

-- What the states of these runs say, for `fleet`.
CREATE FUNCTION faber_ledger.newest_states(of_project text, of_runs text[]) RETURNS TABLE (run_id text, state jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT state.run_id, faber_ledger.state_at_a_glance(state.content) FROM faber_ledger.state
  WHERE faber_ledger.sees(of_project) AND project = of_project AND state.run_id = ANY (of_runs)
$$;
