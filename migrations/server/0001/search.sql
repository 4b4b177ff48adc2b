-- Events and states that have the wanted words, in the projects that the login sees. `most` may be NULL: all of them.
-- The planner's settings are the functions' own: in a plan without the index, time would tell of the rows of others. So it
-- would without the condition of the project, which is cheap, and asked first where the index is not; `|| ''` keeps the
-- indexes of projects out of it, which would read all of a large one. OFFSET 0 lets no row of others meet the cursor: what
-- passed it could be counted by the buffers that a join takes.

CREATE FUNCTION faber_ledger.find_events(
  wanted text[], of_projects text[], before_at text, before_id text, before_project text, before_run text, most integer
) RETURNS SETOF faber_ledger.event
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
  SELECT found.* FROM (
    SELECT event.* FROM mine, faber_ledger.event
    WHERE event.project || '' = mine.seen AND event_words(event.project, event.type, event.payload) @> mine.words
      AND event.payload IS NOT NULL AND event.type IN (
        'note_recorded', 'compaction_completed', 'artifact_loaded', 'artifact_failed', 'artifact_skipped',
        'context_reconstituted'
      )
    OFFSET 0
  ) AS found
  WHERE before_at IS NULL OR (found.at, found.id, found.project, found.run_id)
    < (before_at COLLATE "C", before_id COLLATE "C", before_project COLLATE "C", before_run COLLATE "C")
  ORDER BY found.at DESC, found.id DESC, found.project DESC, found.run_id DESC
  LIMIT most
$$;

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
