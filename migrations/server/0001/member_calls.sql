-- What a member may ask and tell: no table is his to read or to write. Row-level security alone would hide rows, and not
-- that they are there: PostgreSQL compares texts before it asks a policy, and EXPLAIN ANALYZE says what that found. What
-- a function of the keeper reads, no plan shows. `sees` stands in each condition: it is asked once, before any row is
-- read, since nothing in it is a column's; so it takes the same time whatever others have.

CREATE FUNCTION faber_ledger.projects() RETURNS SETOF faber_ledger.project
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT project.* FROM faber_ledger.project WHERE id IN (SELECT faber_ledger.my_projects())
$$;

CREATE FUNCTION faber_ledger.members(of_project text) RETURNS SETOF faber_ledger.member
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT member.* FROM faber_ledger.member JOIN pg_catalog.pg_roles ON oid = member.role_oid AND rolname = member.role
  WHERE (faber_ledger.sees(of_project) OR faber_ledger.is_owner()) AND project = of_project
$$;

CREATE FUNCTION faber_ledger.newest_event(of_project text) RETURNS TABLE ("position" bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT event.position, event.id FROM faber_ledger.event WHERE faber_ledger.sees(of_project) AND project = of_project
  ORDER BY event.position DESC LIMIT 1
$$;

CREATE FUNCTION faber_ledger.newest_event(of_project text, of_run text) RETURNS TABLE ("position" bigint, id text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT event.position, event.id FROM faber_ledger.event
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run
  ORDER BY event.position DESC LIMIT 1
$$;

CREATE FUNCTION faber_ledger.has_event(of_project text, at_position bigint, of_id text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM faber_ledger.event
    WHERE faber_ledger.sees(of_project) AND project = of_project AND position = at_position AND id = of_id
  )
$$;

CREATE FUNCTION faber_ledger.runs_with_news(of_project text, after_position bigint, upto bigint) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT DISTINCT run_id FROM faber_ledger.event
  WHERE faber_ledger.sees(of_project) AND project = of_project AND position > after_position AND position <= upto
$$;

CREATE FUNCTION faber_ledger.count_events(of_project text, of_run text, after_position bigint) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT count(*) FROM faber_ledger.event
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run AND position > after_position
$$;

-- The next events of a run, `most` at most, and of these no more than have `most_bytes` together, but one at least. How
-- long they are is asked first, so that no answer takes more memory than one is meant to.
CREATE FUNCTION faber_ledger.events_after(
  of_project text, of_run text, after_position bigint, most bigint, most_bytes bigint
) RETURNS SETOF faber_ledger.event
LANGUAGE sql STABLE SECURITY DEFINER ROWS 5000 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  WITH sized AS (
    SELECT position, sum(octet_length(coalesce(payload, '')) + octet_length(parents)) OVER (ORDER BY position) AS total
    FROM (
      SELECT position, payload, parents FROM faber_ledger.event
      WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run AND position > after_position
      ORDER BY position LIMIT most
    ) AS next
  )
  SELECT event.* FROM faber_ledger.event
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run AND position > after_position
    AND position <= (SELECT coalesce(max(position) FILTER (WHERE total <= most_bytes), min(position)) FROM sized)
  ORDER BY position
$$;

-- The next of a run's events that have these ids, as many as `events_after` would give.
CREATE FUNCTION faber_ledger.events_with_ids(
  of_project text, of_run text, ids text[], after_position bigint, most bigint, most_bytes bigint
) RETURNS SETOF faber_ledger.event
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  WITH sized AS (
    SELECT position, sum(octet_length(coalesce(payload, '')) + octet_length(parents)) OVER (ORDER BY position) AS total
    FROM (
      SELECT position, payload, parents FROM faber_ledger.event
      WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run AND id = ANY (ids)
        AND position > after_position
      ORDER BY position LIMIT most
    ) AS next
  )
  SELECT event.* FROM faber_ledger.event
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run AND id = ANY (ids)
    AND position > after_position
    AND position <= (SELECT coalesce(max(position) FILTER (WHERE total <= most_bytes), min(position)) FROM sized)
  ORDER BY position
$$;

-- The same error for a project that does not exist: nobody learns which ones do. The owner may fill a project, too.
CREATE FUNCTION faber_ledger.require_member(of_project text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  IF NOT (
    faber_ledger.sees(of_project)
    OR (faber_ledger.is_owner() AND EXISTS (SELECT FROM faber_ledger.project WHERE id = of_project))
  ) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s is not a member of this project', session_user);
  END IF;
END
$$;

-- Insert events, in their order, each array with one value of each. What is there stays: `conflicts` are the ids of those
-- that are there with another content. A payload that was removed on one side is no other content; one that differs
-- under the same hash fails its own. `not_removed` are the events that redactions among them name, and the login may not
-- remove. A start of another run under the run's id is refused, with its class 23.
--
-- Positions are taken under the project's lock, which is held to the transaction's end: so they become visible in their
-- order, and a reader who asks for those after the last one misses nothing. A row's lock, since anybody who may connect
-- could take an advisory one, and stop a project that he does not see. Positions are counted in each project alone: one
-- sequence for all would tell a project's members how much the others do.
CREATE FUNCTION faber_ledger.push_events(
  of_project text, of_run text, seqs bigint[], ids text[], types text[], versions integer[], ats text[], writers text[],
  session_ids text[], clients text[], parents bytea[], salts bytea[], payloads text[], payload_hashes bytea[],
  hashes bytea[], OUT added bigint, OUT conflicts text[], OUT not_removed text[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  last bigint;
  owner text;
  bringer text;
  started text;
BEGIN
  PERFORM faber_ledger.require_member(of_project);
  PERFORM FROM faber_ledger.project WHERE id = of_project FOR NO KEY UPDATE;
  DELETE FROM faber_ledger.removed WHERE removed_at < now() - interval '30 days';
  SELECT coalesce(clone.role, event.writer), event.pushed_by, event.id INTO owner, bringer, started
    FROM faber_ledger.event LEFT JOIN faber_ledger.clone USING (project, writer)
    WHERE event.project = of_project AND event.run_id = of_run AND event.type = 'run_started';
  IF EXISTS (
    SELECT FROM unnest(ids, types) AS arriving (id, type) WHERE arriving.type = 'run_started' AND arriving.id <> started
  ) THEN
    RAISE unique_violation USING
      MESSAGE = format('another run has the id %s: %s wrote it, and %s brought it', of_run, owner, bringer);
  END IF;
  last := coalesce((SELECT position FROM faber_ledger.event WHERE project = of_project ORDER BY position DESC LIMIT 1), 0);
  INSERT INTO faber_ledger.event (
    project, run_id, position, seq, id, type, version, at, writer, session_id, client, parents, salt, payload,
    payload_hash, hash
  )
  SELECT of_project, of_run, last + number, arriving.seq, arriving.id, arriving.type, arriving.version, arriving.at,
    arriving.writer, arriving.session_id, arriving.client, arriving.parents, arriving.salt, arriving.payload,
    arriving.payload_hash, arriving.hash
  FROM unnest(
    seqs, ids, types, versions, ats, writers, session_ids, clients, parents, salts, payloads, payload_hashes, hashes
  ) WITH ORDINALITY AS arriving (
    seq, id, type, version, at, writer, session_id, client, parents, salt, payload, payload_hash, hash, number
  )
  ORDER BY number
  ON CONFLICT (project, run_id, id) DO NOTHING;
  GET DIAGNOSTICS added = ROW_COUNT;
  conflicts := '{}';
  IF added < cardinality(ids) THEN
    conflicts := ARRAY(
      SELECT arriving.id FROM unnest(seqs, ids, salts, payloads, hashes) WITH ORDINALITY
        AS arriving (seq, id, salt, payload, hash, number)
        JOIN faber_ledger.event AS known
          ON known.project = of_project AND known.run_id = of_run AND known.id = arriving.id
      WHERE known.hash <> arriving.hash OR known.seq <> arriving.seq
        OR (known.payload IS NOT NULL AND arriving.payload IS NOT NULL
          AND (known.payload <> arriving.payload OR known.salt IS DISTINCT FROM arriving.salt))
      ORDER BY number
    );
  END IF;
  IF ARRAY['event_redacted', 'redaction_undone'] && types
      OR EXISTS (SELECT FROM faber_ledger.redaction WHERE project = of_project AND run_id = of_run) THEN
    PERFORM faber_ledger.apply_redactions(of_project, of_run, ids);
  END IF;
  not_removed := ARRAY(
    SELECT DISTINCT event.id FROM faber_ledger.redaction JOIN faber_ledger.event
      ON event.project = of_project AND event.run_id = of_run AND event.id = event_id AND event.payload IS NOT NULL
    WHERE redaction.project = of_project AND redaction.run_id = of_run AND by_event = ANY (ids) AND NOT is_undone
      AND event.type NOT IN ('event_redacted', 'redaction_undone')
  );
END
$$;

-- Say that a clone is the login's, if it is nobody's yet; whose it is, and whether that is the login.
CREATE FUNCTION faber_ledger.claim_clone(of_project text, its_writer text, OUT role text, OUT is_mine boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_member(of_project);
  INSERT INTO faber_ledger.clone SELECT of_project, its_writer, rolname, oid FROM pg_catalog.pg_roles
    WHERE rolname = session_user ON CONFLICT DO NOTHING;
  SELECT clone.role, clone.role_oid = me.oid INTO role, is_mine FROM faber_ledger.clone, pg_catalog.pg_roles AS me
    WHERE clone.project = of_project AND clone.writer = its_writer AND me.rolname = session_user;
END
$$;

-- Give a clone to a login, as an admin.
CREATE FUNCTION faber_ledger.give_clone(of_project text, its_writer text, its_role name) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_admin(of_project);
  INSERT INTO faber_ledger.clone SELECT of_project, its_writer, rolname, oid FROM pg_catalog.pg_roles
    WHERE rolname = its_role
    ON CONFLICT (project, writer) DO UPDATE SET role = excluded.role, role_oid = excluded.role_oid;
  IF NOT FOUND THEN
    RAISE undefined_object USING MESSAGE = format('role %s does not exist', its_role);
  END IF;
END
$$;

-- Who wrote events, each named by its run and its id, whose clone that is, and which login brought them.
CREATE FUNCTION faber_ledger.who_brought(of_project text, of_runs text[], ids text[])
RETURNS TABLE (run_id text, id text, writer text, role text, pushed_by text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT event.run_id, event.id, event.writer, clone.role, event.pushed_by
  FROM unnest(of_runs, ids) AS asked (run, name)
    JOIN faber_ledger.event ON event.project = of_project AND event.run_id = asked.run AND event.id = asked.name
    LEFT JOIN faber_ledger.clone ON clone.project = of_project AND clone.writer = event.writer
  WHERE faber_ledger.sees(of_project)
$$;

-- Put what redactions of an event removed back, or remove it for good, as an admin; the runs in which that was done.
CREATE FUNCTION faber_ledger.restore_event(of_project text, of_event text) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_admin(of_project);
  RETURN QUERY SELECT run_id FROM (
    SELECT run_id FROM faber_ledger.removed WHERE project = of_project AND event_id = of_event OFFSET 0
  ) AS removed WHERE faber_ledger.put_back(of_project, run_id, of_event, 9223372036854775807, '');
END
$$;

CREATE FUNCTION faber_ledger.purge_event(of_project text, of_event text) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_admin(of_project);
  RETURN QUERY DELETE FROM faber_ledger.removed WHERE project = of_project AND event_id = of_event RETURNING run_id;
END
$$;

CREATE FUNCTION faber_ledger.state_of(of_project text, of_run text)
RETURNS TABLE (at text, log_end text, digest bytea, content text, pushed_by text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT at, log_end, sha256(convert_to(content, 'UTF8')), content, pushed_by FROM faber_ledger.state
  WHERE faber_ledger.sees(of_project) AND project = of_project AND run_id = of_run
$$;

-- Keep a state, and return whether it was kept: only from the login's own clone, whose log ends with an event that is
-- here; not if a newer one is there, or one of another login that its clone has not seen (`its_base`: the digest of that
-- which it has), and not if the run has a redaction that its clone does not know: the state may show what that removes.
-- The project is locked, so that no redaction arrives meanwhile.
CREATE FUNCTION faber_ledger.put_state(
  of_project text, of_run text, its_content text, its_at text, its_writer text, its_log_end text, its_base bytea,
  known_redactions text[]
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_member(of_project);
  PERFORM FROM faber_ledger.project WHERE id = of_project FOR NO KEY UPDATE;
  IF NOT EXISTS (
    SELECT FROM faber_ledger.clone JOIN pg_catalog.pg_roles AS me ON me.oid = role_oid AND me.rolname = session_user
    WHERE project = of_project AND writer = its_writer
  ) OR NOT EXISTS (
    SELECT FROM faber_ledger.event WHERE project = of_project AND run_id = of_run AND id = its_log_end
  ) OR EXISTS (
    SELECT FROM faber_ledger.redaction
    WHERE project = of_project AND run_id = of_run AND by_event <> ALL (known_redactions)
  ) THEN
    RETURN false;
  END IF;
  INSERT INTO faber_ledger.state AS known (project, run_id, at, writer, content, log_end)
    VALUES (
      of_project, of_run, least(its_at COLLATE "C", to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      its_writer, its_content, its_log_end
    )
    ON CONFLICT (project, run_id) DO UPDATE
      SET at = excluded.at, writer = excluded.writer, content = excluded.content, log_end = excluded.log_end,
        pushed_by = excluded.pushed_by, received_at = now()
      WHERE excluded.at >= known.at
        AND (known.pushed_by = session_user OR its_base = sha256(convert_to(known.content, 'UTF8')));
  RETURN FOUND;
END
$$;

-- Tell who listens that a project has news. No push waits for this: the queue of notifications is the whole server's, and
-- anybody who may connect can fill it. Anybody can listen, too, so no project is named: its members know the hash of its id.
CREATE FUNCTION faber_ledger.tell_readers(of_project text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_member(of_project);
  PERFORM pg_notify('faber_ledger', encode(sha256(convert_to(of_project, 'UTF8')), 'hex'));
END
$$;
