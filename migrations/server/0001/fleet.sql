-- What `fleet` reads of a run: who started it, its sessions, its compactions, what they cost.

CREATE INDEX event_sessions ON faber_ledger.event (project, run_id, seq, id)
  WHERE type IN (
    'run_started', 'run_adopted', 'session_started', 'session_ended', 'compaction_completed', 'event_redacted',
    'usage_recorded'
  );

-- Some members of an object, of each text 200 characters at most; NULL for one that is no text and no number of that
-- length. It never raises.
CREATE FUNCTION faber_ledger.short_members(object jsonb, names text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_object_agg(name, CASE
    WHEN jsonb_typeof(object->name) = 'string' THEN to_jsonb(left(object->>name, 200))
    WHEN jsonb_typeof(object->name) = 'number' AND char_length(object->>name) <= 200 THEN object->name
  END)
  FROM unnest(names) AS name
$$;

-- The members of a state that `fleet` needs, as JSON; of phases, which are a list or an object, the first 100, and lists
-- of approvals of more than 20,000 characters are left out. It never raises.
CREATE FUNCTION faber_ledger.state_at_a_glance(said text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := faber_ledger.parse_json(said);
  pull_request text[] := ARRAY['pr_url', 'pr_number'];
BEGIN
  RETURN faber_ledger.short_members(
    state, ARRAY['work_id', 'target', 'status', 'current_phase', 'branch', 'updated_at'] || pull_request
  ) || jsonb_build_object(
    'artifacts', faber_ledger.short_members(state->'artifacts', ARRAY['branch_name', 'branch'] || pull_request),
    'feedback_request', faber_ledger.short_members(state->'feedback_request', ARRAY['request_id', 'type', 'prompt']),
    'phases', CASE jsonb_typeof(state->'phases')
      WHEN 'object' THEN (
        SELECT jsonb_object_agg(left(name, 200), faber_ledger.short_members(phase, ARRAY['status']))
        FROM (SELECT * FROM jsonb_each(state->'phases') LIMIT 100) AS phase_by_name(name, phase)
      )
      WHEN 'array' THEN (
        SELECT jsonb_agg(faber_ledger.short_members(phase, ARRAY['phase_name', 'name', 'id', 'status']))
        FROM (SELECT * FROM jsonb_array_elements(state->'phases') LIMIT 100) AS listed(phase)
      )
    END,
    'approvals', CASE WHEN char_length((state->'approvals')::text) <= 20000 THEN state->'approvals' END,
    'pending_approvals',
    CASE WHEN char_length((state->'pending_approvals')::text) <= 20000 THEN state->'pending_approvals' END
  );
END
$$;

-- The newest event of each run. A run costs two look-ups in an index, however many events it has: `DISTINCT run_id` would
-- read all of them. The names of refused events, which only hold a place, sort behind all ids. An id begins with its
-- time, milliseconds in ten characters: an event more than five minutes ahead counts only in a run that has no other,
-- which costs one look-up more.
CREATE FUNCTION faber_ledger.newest_of_runs(of_project text)
RETURNS TABLE (id text, run_id text, type text, at text, writer text, pushed_by text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  WITH RECURSIVE latest AS (
    SELECT string_agg(
      substr('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 1 + ((milliseconds >> 5 * place) & 31)::integer, 1), ''
      ORDER BY place DESC
    ) AS id
    FROM
      generate_series(0, 9) AS place,
      CAST(extract(epoch FROM now() + interval '5 minutes') * 1000 AS bigint) AS milliseconds
  ), run AS (
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
    (
      SELECT event.id, event.run_id, event.type, event.at, event.writer, event.pushed_by FROM faber_ledger.event
      WHERE project = of_project AND event.run_id = run.run_id AND event.id < (SELECT latest.id FROM latest)
      ORDER BY event.id DESC LIMIT 1
    )
    UNION ALL
    (
      SELECT event.id, event.run_id, event.type, event.at, event.writer, event.pushed_by FROM faber_ledger.event
      WHERE project = of_project AND event.run_id = run.run_id AND event.id < 'a' ORDER BY event.id DESC LIMIT 1
    )
    LIMIT 1
  ) AS newest
$$;

-- What tells about the sessions of runs, in the order of each run's log; no event that is longer than any of a hook's.
CREATE FUNCTION faber_ledger.session_events(of_project text, of_runs text[]) RETURNS SETOF faber_ledger.event
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT event.* FROM faber_ledger.event
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = ANY (of_runs) AND type IN (
    'run_started', 'run_adopted', 'session_started', 'session_ended', 'compaction_completed', 'event_redacted',
    'usage_recorded'
  ) AND octet_length(coalesce(payload, '')) <= 65536
  ORDER BY run_id, seq, id
$$;

-- What the states of these runs say, for `fleet`, and who brought them.
CREATE FUNCTION faber_ledger.newest_states(of_project text, of_runs text[])
RETURNS TABLE (run_id text, state jsonb, pushed_by text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT state.run_id, faber_ledger.state_at_a_glance(state.content), state.pushed_by FROM faber_ledger.state
  WHERE faber_ledger.sees(of_project) AND project = of_project AND state.run_id = ANY (of_runs)
$$;
