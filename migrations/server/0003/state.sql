-- The newest state.json of each run. `at`: its `updated_at` in UTC, '' if it has none.
CREATE TABLE faber_ledger.state (
  project text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  at text COLLATE "C" NOT NULL CHECK (char_length(at) <= 64),
  writer text COLLATE "C" NOT NULL CHECK (char_length(writer) <= 4096),
  content text COLLATE "C" NOT NULL CHECK (octet_length(content) <= 67108864),
  received_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project, run_id),
  CONSTRAINT run_id_has_its_form CHECK (
    char_length(run_id) <= 255
    AND run_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,2}$'
  )
);

-- The next state that a clone pushes replaces it.
INSERT INTO faber_ledger.state (project, run_id, at, writer, content, received_at)
  SELECT DISTINCT ON (project, run_id) project, run_id, '', writer, content, received_at FROM faber_ledger.document
  WHERE content IS NOT NULL ORDER BY project, run_id, at DESC, position DESC;

-- The functions that were there for documents.
DROP TRIGGER event_3_redaction ON faber_ledger.event;
DROP FUNCTION faber_ledger.documents(text, text, bigint), faber_ledger.content_of(text, text, text, bigint),
  faber_ledger.push_document(text, text, text, bytea, text[], text, text, text), faber_ledger.redactions(text, text),
  faber_ledger.find_documents(text[], text[], text, text, text, text, integer),
  faber_ledger.newest_states(text, text[]), faber_ledger.apply_redaction();
DROP TABLE faber_ledger.document;
DROP INDEX faber_ledger.event_redactions;
DROP FUNCTION faber_ledger.place_document(), faber_ledger.drop_superseded(), faber_ledger.check_document_change();
ALTER FUNCTION faber_ledger.document_words(text, text) RENAME TO state_words;

-- What `ledger.redaction.redaction_of` reads; else it changes nothing. An undo changes nothing here. The run's state goes,
-- too: it may show what is removed.
CREATE FUNCTION faber_ledger.apply_redaction() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  said json;
  target text;
BEGIN
  BEGIN -- PostgreSQL takes no \u0000 and no half of a pair of surrogates: blanks, which no id and no field has
    said := regexp_replace(
      NEW.payload, '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1 ', 'g'
    )::json;
    IF json_typeof(said->'event_id') IS DISTINCT FROM 'string'
        OR coalesce(json_typeof(said->'reason'), '') NOT IN ('string', 'null')
        OR (SELECT count(DISTINCT name) FROM json_object_keys(said) AS name) <> 2 THEN
      RETURN NULL;
    END IF;
    target := said->>'event_id';
    IF target !~ '^[0-7][0-9A-HJKMNP-TV-Z]{25}$' OR target = NEW.id THEN
      RETURN NULL;
    END IF;
  EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
  END;
  INSERT INTO faber_ledger.redaction (project, run_id, event_id, by_event, of_blocks)
    VALUES (NEW.project, NEW.run_id, target, NEW.id, false) ON CONFLICT DO NOTHING;
  UPDATE faber_ledger.event SET payload_hash = sha256(salt || convert_to(payload, 'UTF8')), salt = NULL, payload = NULL
    WHERE project = NEW.project AND run_id = NEW.run_id AND id = target AND payload IS NOT NULL
      AND type NOT IN ('event_redacted', 'redaction_undone');
  DELETE FROM faber_ledger.state WHERE project = NEW.project AND run_id = NEW.run_id;
  RETURN NULL;
END
$$;

CREATE TRIGGER event_3_redaction AFTER INSERT ON faber_ledger.event
  FOR EACH ROW WHEN (NEW.type = 'event_redacted') EXECUTE FUNCTION faber_ledger.apply_redaction();
CREATE TRIGGER state_isolation BEFORE INSERT ON faber_ledger.state
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.check_isolation();

CREATE FUNCTION faber_ledger.state_of(of_project text, of_run text)
RETURNS TABLE (at text, digest bytea, content text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT at, sha256(convert_to(content, 'UTF8')), content FROM faber_ledger.state
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run
$$;

-- Keep a state, and return whether it was kept: not if a newer one is there, and not if the run has a redaction that its
-- clone does not know: the state may show what that removes. The project is locked, so that no redaction arrives meanwhile.
CREATE FUNCTION faber_ledger.put_state(
  of_project text, of_run text, its_content text, its_at text, its_writer text, known_redactions text[]
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_member(of_project);
  PERFORM FROM faber_ledger.project WHERE id = of_project FOR NO KEY UPDATE;
  IF EXISTS (
    SELECT FROM faber_ledger.redaction
    WHERE project = of_project AND run_id = of_run AND by_event <> ALL (known_redactions)
  ) THEN
    RETURN false;
  END IF;
  INSERT INTO faber_ledger.state AS known (project, run_id, at, writer, content)
    VALUES (
      of_project, of_run, least(its_at COLLATE "C", to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      its_writer, its_content
    )
    ON CONFLICT (project, run_id) DO UPDATE
      SET at = excluded.at, writer = excluded.writer, content = excluded.content, received_at = now()
      WHERE excluded.at >= known.at;
  RETURN FOUND;
END
$$;

-- What the states of these runs say, for `fleet`.
CREATE FUNCTION faber_ledger.newest_states(of_project text, of_runs text[]) RETURNS TABLE (run_id text, state jsonb)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT state.run_id, faber_ledger.state_at_a_glance(state.content) FROM faber_ledger.state
  WHERE faber_ledger.sees(of_project) AND project = of_project AND state.run_id = ANY (of_runs)
$$;

CREATE INDEX state_words ON faber_ledger.state
  USING gin (faber_ledger.state_words(project, content)) WITH (fastupdate = off);

-- States that have the wanted words, as `find_events` finds events; a run has one state, so its `id` says nothing.
CREATE FUNCTION faber_ledger.find_states(
  wanted text[], of_projects text[], before_at text, before_id text, before_project text, before_run text, most integer
) RETURNS TABLE (at text, id text, project text, run_id text, content text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, faber_ledger, pg_temp
SET enable_seqscan = off SET enable_indexscan = off SET enable_bitmapscan = on SET enable_nestloop = on
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off SET enable_memoize = off
SET seq_page_cost = 1 SET random_page_cost = 4 SET cpu_tuple_cost = 0.01 SET cpu_index_tuple_cost = 0.005
SET cpu_operator_cost = 0.0025 SET effective_cache_size = '4GB' SET work_mem = '64MB' SET max_parallel_workers_per_gather = 0
SET gin_fuzzy_search_limit = 0 SET jit = off AS $$
  WITH mine AS MATERIALIZED (
    SELECT seen, ARRAY(SELECT seen || '=' || word FROM unnest(wanted) AS word) AS words
    FROM faber_ledger.my_projects() AS seen
    WHERE cardinality(wanted) > 0 AND (of_projects IS NULL OR seen = ANY (of_projects))
  )
  SELECT found.at, '0', found.project, found.run_id, found.content FROM (
    SELECT state.* FROM mine, faber_ledger.state
    WHERE state.project || '' = mine.seen AND state_words(state.project, state.content) @> mine.words
    OFFSET 0
  ) AS found
  WHERE before_at IS NULL OR (found.at, found.project, found.run_id)
    < (before_at COLLATE "C", before_project COLLATE "C", before_run COLLATE "C")
  ORDER BY found.at DESC, found.project DESC, found.run_id DESC
  LIMIT most
$$;

-- As for the tables and functions of 0001.
GRANT SELECT, INSERT, UPDATE (at, writer, content, received_at), DELETE ON faber_ledger.state TO faber_ledger_keeper;
ALTER TABLE faber_ledger.state ENABLE ROW LEVEL SECURITY;
CREATE POLICY keeps ON faber_ledger.state TO faber_ledger_keeper USING (true);
REVOKE ALL ON TYPE faber_ledger.state FROM PUBLIC;
REVOKE ALL ON FUNCTION faber_ledger.apply_redaction(), faber_ledger.state_of(text, text),
  faber_ledger.put_state(text, text, text, text, text, text[]), faber_ledger.newest_states(text, text[]),
  faber_ledger.find_states(text[], text[], text, text, text, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION faber_ledger.state_of(text, text),
  faber_ledger.put_state(text, text, text, text, text, text[]), faber_ledger.newest_states(text, text[]),
  faber_ledger.find_states(text[], text[], text, text, text, text, integer) TO faber_ledger_member;
