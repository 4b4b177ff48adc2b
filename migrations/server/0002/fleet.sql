-- What `fleet` reads of a run: who started it, its sessions, its compactions.

CREATE INDEX event_sessions ON faber_ledger.event (project, run_id, seq, id)
  WHERE type IN ('run_started', 'run_adopted', 'session_started', 'session_ended', 'compaction_completed', 'event_redacted');

-- The members of a state that `fleet` shows, as JSON; NULL for a text that is no JSON object. It never raises.
CREATE FUNCTION faber_ledger.state_at_a_glance(said text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := faber_ledger.parse_json(said);
BEGIN
  RETURN jsonb_build_object(
    'work_id', state->'work_id', 'status', state->'status', 'current_phase', state->'current_phase'
  );
END
$$;

REVOKE ALL ON FUNCTION faber_ledger.state_at_a_glance(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION faber_ledger.state_at_a_glance(text) TO faber_ledger_member;
