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

REVOKE ALL ON FUNCTION faber_ledger.state_at_a_glance(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION faber_ledger.state_at_a_glance(text) TO faber_ledger_member;
