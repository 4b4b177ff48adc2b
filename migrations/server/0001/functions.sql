-- Whoever calls a function, it finds its own tables and PostgreSQL's own operators: `pg_temp` comes last.

-- The roles that the login is in. `SET ROLE` changes nothing about it. What everybody's role is in counts for nobody.
CREATE FUNCTION faber_ledger.my_roles() RETURNS TABLE (role name, role_oid oid)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT rolname, oid FROM pg_catalog.pg_roles
  WHERE pg_has_role(session_user, oid, 'USAGE') AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_roles AS everybody
    WHERE everybody.rolname = 'faber_ledger_member' AND pg_has_role(everybody.oid, pg_roles.oid, 'MEMBER')
  )
$$;

-- The projects that the login sees. A role that was dropped sees nothing, and a new one of its name is another one. Here
-- and below the login's roles come first: what is read does not depend on what others have.
CREATE FUNCTION faber_ledger.my_projects() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  WITH mine AS MATERIALIZED (SELECT role, role_oid FROM faber_ledger.my_roles())
  SELECT DISTINCT member.project FROM mine CROSS JOIN LATERAL (
    SELECT member.project FROM faber_ledger.member WHERE member.role_oid = mine.role_oid AND member.role = mine.role OFFSET 0
  ) AS member
$$;

-- The login's memberships of a project: for each, whether it may admit others.
CREATE FUNCTION faber_ledger.my_memberships(wanted text) RETURNS TABLE (is_admin boolean)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  WITH mine AS MATERIALIZED (SELECT role, role_oid FROM faber_ledger.my_roles())
  SELECT member.is_admin FROM mine CROSS JOIN LATERAL (
    SELECT member.is_admin FROM faber_ledger.member
    WHERE member.project = wanted AND member.role = mine.role AND member.role_oid = mine.role_oid OFFSET 0
  ) AS member
$$;

-- Whether the login sees a project. In a query's condition it is asked before a row is read: nothing in it is a column's.
CREATE FUNCTION faber_ledger.sees(wanted text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT EXISTS (SELECT FROM faber_ledger.my_memberships(wanted))
$$;

-- Whether the login may do anything with a project's members: the owner of the schema or the database, a superuser.
CREATE FUNCTION faber_ledger.is_owner() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT pg_has_role(session_user, (SELECT nspowner FROM pg_catalog.pg_namespace WHERE nspname = 'faber_ledger'), 'USAGE')
    OR pg_has_role(session_user, (SELECT datdba FROM pg_catalog.pg_database WHERE datname = current_database()), 'USAGE')
$$;

CREATE FUNCTION faber_ledger.is_project_admin(wanted text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT EXISTS (SELECT FROM faber_ledger.my_memberships(wanted) AS mine WHERE mine.is_admin)
$$;

-- Let a role see a project, whoever asks: nobody may call it.
CREATE FUNCTION faber_ledger.add_member(wanted text, newcomer name, as_admin boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  its_oid oid := (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = newcomer);
BEGIN
  IF its_oid IS NULL THEN
    RAISE undefined_object USING MESSAGE = format('role %s does not exist', newcomer);
  END IF;
  IF pg_has_role('faber_ledger_member', newcomer, 'MEMBER') OR pg_has_role('faber_ledger_keeper', newcomer, 'MEMBER') THEN
    RAISE insufficient_privilege USING MESSAGE = format('role %s is everybody''s: no project admits it', newcomer);
  END IF;
  INSERT INTO faber_ledger.member (project, role, role_oid, is_admin) VALUES (wanted, newcomer, its_oid, as_admin)
    ON CONFLICT (project, role) DO UPDATE SET role_oid = excluded.role_oid,
      is_admin = excluded.is_admin OR (member.is_admin AND member.role_oid = excluded.role_oid);
END
$$;

-- Make a project, with an admin; whether it was made. The schema's owner may call it, and who he grants it to.
CREATE FUNCTION faber_ledger.add_project(wanted text, its_name text, its_admin name) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  INSERT INTO faber_ledger.project (id, name) VALUES (wanted, its_name) ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM faber_ledger.add_member(wanted, its_admin, true);
  RETURN true;
END
$$;

-- Whether the login decides about a project's members: its admin, or the owner. The same error for a project that does
-- not exist: nobody learns which ones do.
CREATE FUNCTION faber_ledger.require_admin(wanted text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  IF NOT (faber_ledger.is_project_admin(wanted)
      OR (faber_ledger.is_owner() AND EXISTS (SELECT FROM faber_ledger.project WHERE id = wanted))) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s is not an admin of this project', session_user);
  END IF;
END
$$;

-- Let a role see a project; not one whose password is the code of an invitation, which may be in anybody's hands.
CREATE FUNCTION faber_ledger.admit(wanted text, newcomer name, as_admin boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM faber_ledger.require_admin(wanted);
  IF EXISTS (SELECT FROM faber_ledger.invitation JOIN pg_catalog.pg_roles ON oid = role_oid WHERE rolname = newcomer) THEN
    RAISE object_not_in_prerequisite_state USING MESSAGE = format('%s has not accepted an invitation', newcomer);
  END IF;
  PERFORM faber_ledger.add_member(wanted, newcomer, as_admin);
END
$$;

-- Let a login see a project once it accepts; whether an earlier invitation to it still waited. Then accept, and learn the
-- projects that this was for.
CREATE FUNCTION faber_ledger.invite(wanted text, newcomer name, as_admin boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  still_waited boolean;
BEGIN
  PERFORM faber_ledger.require_admin(wanted);
  DELETE FROM faber_ledger.invitation USING pg_catalog.pg_roles
    WHERE project = wanted AND oid = role_oid AND rolname = newcomer;
  still_waited := FOUND;
  INSERT INTO faber_ledger.invitation (project, role_oid, is_admin)
    SELECT wanted, oid, as_admin FROM pg_catalog.pg_roles WHERE rolname = newcomer;
  RETURN still_waited;
END
$$;

CREATE FUNCTION faber_ledger.accept_invitation() RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  one record;
BEGIN
  FOR one IN
    DELETE FROM faber_ledger.invitation USING pg_catalog.pg_roles AS me
    WHERE me.rolname = session_user AND role_oid = me.oid RETURNING project, is_admin, until
  LOOP
    IF one.until > now() THEN
      PERFORM faber_ledger.add_member(one.project, session_user, one.is_admin);
      RETURN NEXT one.project;
    END IF;
  END LOOP;
END
$$;

-- Let a role see a project no more; whether it did. A login may always leave. The last admin goes only if `may_be_last`;
-- of two who expel each other, one waits for the admins' rows. The project's lock is not taken: strangers may call this,
-- and a member who holds the lock must not stay by it.
CREATE FUNCTION faber_ledger.expel(wanted text, leaver name, may_be_last boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  was_admin boolean;
BEGIN
  IF NOT (leaver = session_user OR faber_ledger.is_project_admin(wanted) OR faber_ledger.is_owner()) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s is not an admin of this project', session_user);
  END IF;
  DELETE FROM faber_ledger.invitation
    WHERE project = wanted AND role_oid = (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = leaver);
  IF EXISTS (SELECT FROM faber_ledger.member WHERE project = wanted AND role = leaver AND is_admin) THEN
    PERFORM FROM faber_ledger.member WHERE project = wanted AND is_admin ORDER BY role FOR UPDATE;
  END IF;
  DELETE FROM faber_ledger.member WHERE project = wanted AND role = leaver RETURNING is_admin INTO was_admin;
  IF was_admin AND NOT may_be_last AND NOT EXISTS (
    SELECT FROM faber_ledger.member JOIN pg_catalog.pg_roles ON oid = role_oid AND rolname = role
    WHERE project = wanted AND is_admin
  ) THEN
    RAISE restrict_violation USING MESSAGE = format('%s is the only admin of this project', leaver);
  END IF;
  RETURN was_admin IS NOT NULL;
END
$$;

-- The event that a stored redaction, or the undo of one, names: what `ledger.redaction.redaction_of` reads, else NULL.
-- PostgreSQL takes no \u0000 and no half of a pair of surrogates: blanks, which no id and no field has.
CREATE FUNCTION faber_ledger.redaction_target(own_id text, said text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  redaction json;
  target text;
BEGIN
  redaction := regexp_replace(
    said, '(?<!\\)((?:\\\\)*)\\u(?:0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1 ', 'g'
  )::json;
  target := redaction->>'event_id';
  IF json_typeof(redaction->'event_id') = 'string' AND json_typeof(redaction->'reason') IN ('string', 'null')
      AND (SELECT count(DISTINCT name) FROM json_object_keys(redaction) AS name) = 2
      AND target ~ '^[0-7][0-9A-HJKMNP-TV-Z]{25}$' AND target <> own_id THEN
    RETURN target;
  END IF;
  RETURN NULL;
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END
$$;

-- Note the redactions and undos among these events of a run that a clone of the login wrote, and that nobody else brought
-- in its name; then remove what is due. What the login may not remove or put back stays as it is. An undo counts for the
-- redactions before it.
CREATE FUNCTION faber_ledger.apply_redactions(of_project text, of_run text, arrived text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  me oid := (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = session_user);
  am_admin boolean := faber_ledger.is_project_admin(of_project) OR faber_ledger.is_owner();
  one record;
BEGIN
  FOR one IN
    SELECT id, seq, type, faber_ledger.redaction_target(id, payload) AS target FROM faber_ledger.event
    WHERE project = of_project AND run_id = of_run AND id = ANY (arrived) AND type IN ('event_redacted', 'redaction_undone')
      AND pushed_by = session_user AND faber_ledger.clone_of(of_project, writer) = me
    ORDER BY seq, id
  LOOP
    IF one.type = 'event_redacted' AND one.target IS NOT NULL THEN
      INSERT INTO faber_ledger.redaction (project, run_id, event_id, by_event, role_oid, by_admin)
        VALUES (of_project, of_run, one.target, one.id, me, am_admin) ON CONFLICT DO NOTHING;
    ELSIF am_admin OR me = (
      SELECT faber_ledger.clone_of(of_project, writer) FROM faber_ledger.event
      WHERE project = of_project AND run_id = of_run AND id = one.target
    ) THEN
      PERFORM faber_ledger.put_back(of_project, of_run, one.target, one.seq, one.id);
    END IF;
  END LOOP;
  WITH due AS (
    SELECT DISTINCT event.id FROM faber_ledger.redaction JOIN faber_ledger.event
      ON event.project = of_project AND event.run_id = of_run AND event.id = redaction.event_id
    WHERE redaction.project = of_project AND redaction.run_id = of_run AND NOT is_undone
      AND payload IS NOT NULL AND type NOT IN ('event_redacted', 'redaction_undone')
      AND (by_admin OR redaction.role_oid = faber_ledger.clone_of(of_project, event.writer))
  ), kept AS (
    INSERT INTO faber_ledger.removed (project, run_id, event_id, salt, payload)
      SELECT project, run_id, id, salt, payload FROM faber_ledger.event
      WHERE project = of_project AND run_id = of_run AND id IN (SELECT id FROM due)
      ON CONFLICT DO NOTHING
  )
  UPDATE faber_ledger.event SET payload_hash = sha256(salt || convert_to(payload, 'UTF8')), salt = NULL, payload = NULL
    WHERE project = of_project AND run_id = of_run AND id IN (SELECT id FROM due);
  IF FOUND THEN -- the run's state may show what was removed; a member removes no colleague's
    DELETE FROM faber_ledger.state
      WHERE project = of_project AND run_id = of_run AND (am_admin OR pushed_by = session_user);
  END IF;
END
$$;

-- The login whose clone has a writer's id; NULL if nobody's.
CREATE FUNCTION faber_ledger.clone_of(of_project text, its_writer text) RETURNS oid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
  SELECT role_oid FROM faber_ledger.clone WHERE project = of_project AND writer = its_writer
$$;

-- Put a removed payload back, and let no redaction before a place in the run's order remove it again; whether there was
-- one.
CREATE FUNCTION faber_ledger.put_back(of_project text, of_run text, of_event text, at_seq bigint, at_id text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  UPDATE faber_ledger.redaction SET is_undone = true
    FROM faber_ledger.event
    WHERE redaction.project = of_project AND redaction.run_id = of_run AND event_id = of_event
      AND event.project = of_project AND event.run_id = of_run AND event.id = by_event
      AND (event.seq, event.id) < (at_seq, at_id);
  UPDATE faber_ledger.event SET salt = removed.salt, payload = removed.payload, payload_hash = NULL
    FROM faber_ledger.removed
    WHERE event.project = of_project AND event.run_id = of_run AND event.id = of_event AND event.payload IS NULL
      AND removed.project = of_project AND removed.run_id = of_run AND removed.event_id = of_event
      AND removed_at >= now() - interval '30 days';
  IF FOUND THEN
    DELETE FROM faber_ledger.removed WHERE project = of_project AND run_id = of_run AND event_id = of_event;
    RETURN true;
  END IF;
  RETURN false;
END
$$;

-- With an older snapshot, a redaction would not see its target, nor a target its redaction.
CREATE FUNCTION faber_ledger.check_isolation() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE feature_not_supported USING MESSAGE = 'events and states are inserted in READ COMMITTED transactions only';
  END IF;
  RETURN NULL;
END
$$;

-- The one change of a stored event: its hash in place of salt and payload, or these again in place of their hash.
CREATE FUNCTION faber_ledger.check_event_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  same faber_ledger.event := NEW;
BEGIN
  same.salt := OLD.salt;
  same.payload := OLD.payload;
  same.payload_hash := OLD.payload_hash;
  IF same IS NOT DISTINCT FROM OLD AND OLD.type NOT IN ('event_redacted', 'redaction_undone') AND (
    NEW.payload_hash = sha256(OLD.salt || convert_to(OLD.payload, 'UTF8'))
    OR OLD.payload_hash = sha256(NEW.salt || convert_to(NEW.payload, 'UTF8'))
  ) THEN
    RETURN NEW;
  END IF;
  RAISE restrict_violation USING MESSAGE = 'an event is never changed';
END
$$;

CREATE FUNCTION faber_ledger.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  RAISE restrict_violation USING MESSAGE = format('no %s is ever changed or removed', TG_TABLE_NAME);
END
$$;

CREATE TRIGGER event_isolation BEFORE INSERT ON faber_ledger.event
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.check_isolation();
CREATE TRIGGER state_isolation BEFORE INSERT ON faber_ledger.state
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.check_isolation();
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON faber_ledger.event
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.check_event_change();
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON faber_ledger.event
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.refuse_change();
CREATE TRIGGER event_is_never_truncated BEFORE TRUNCATE ON faber_ledger.event
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.refuse_change();

CREATE TRIGGER project_is_never_removed BEFORE DELETE ON faber_ledger.project
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.refuse_change();
CREATE TRIGGER project_is_never_truncated BEFORE TRUNCATE ON faber_ledger.project
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.refuse_change();
