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

-- Make a project, with the login as its admin; nothing if the login sees the project already.
CREATE FUNCTION faber_ledger.register_project(wanted text, its_name text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  INSERT INTO faber_ledger.project (id, name) VALUES (wanted, its_name) ON CONFLICT DO NOTHING;
  IF FOUND THEN
    INSERT INTO faber_ledger.member (project, role, role_oid, is_admin)
      SELECT wanted, rolname, oid, true FROM pg_catalog.pg_roles WHERE rolname = session_user;
  ELSIF NOT (faber_ledger.is_owner() OR faber_ledger.sees(wanted)) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s is not a member of this project', session_user);
  END IF;
END
$$;

-- Let a role see a project. The same error for a project that does not exist: nobody learns which ones do.
CREATE FUNCTION faber_ledger.admit(wanted text, newcomer name, as_admin boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  its_oid oid := (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = newcomer);
BEGIN
  IF NOT (faber_ledger.is_project_admin(wanted)
      OR (faber_ledger.is_owner() AND EXISTS (SELECT FROM faber_ledger.project WHERE id = wanted))) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s is not an admin of this project', session_user);
  END IF;
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

-- Let a role see a project no more; whether it did. A login may always leave.
CREATE FUNCTION faber_ledger.expel(wanted text, leaver name) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  IF NOT (leaver = session_user OR faber_ledger.is_project_admin(wanted) OR faber_ledger.is_owner()) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s is not an admin of this project', session_user);
  END IF;
  DELETE FROM faber_ledger.member WHERE project = wanted AND role = leaver;
  RETURN FOUND;
END
$$;

-- A position is taken under the project's lock, which is held to the transaction's end: so positions become visible in
-- their order, and a reader who asks for those after the last one misses nothing. A row's lock, since anybody who may
-- connect could take an advisory one, and stop a project that he does not see. Positions are counted in each project
-- alone: one sequence for all would tell a project's members how much the others do.
CREATE FUNCTION faber_ledger.place_event() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
BEGIN
  PERFORM FROM faber_ledger.project WHERE id = NEW.project FOR NO KEY UPDATE;
  NEW.position := 1 + coalesce(
    (SELECT position FROM faber_ledger.event WHERE project = NEW.project ORDER BY position DESC LIMIT 1), 0
  );
  NEW.received_at := now();
  IF NEW.payload IS NOT NULL AND NEW.salt IS NOT NULL AND NEW.type NOT IN ('event_redacted', 'redaction_undone') AND EXISTS (
    SELECT FROM faber_ledger.redaction
    WHERE project = NEW.project AND run_id = NEW.run_id AND event_id = NEW.id
      AND NOT (NEW.type = 'run_adopted' AND of_blocks)
  ) THEN
    NEW.payload_hash := sha256(NEW.salt || convert_to(NEW.payload, 'UTF8'));
    NEW.salt := NULL;
    NEW.payload := NULL;
  END IF;
  RETURN NEW;
END
$$;

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

-- The one change of a stored event: its noted redaction takes salt and payload, and puts their hash in their place.
CREATE FUNCTION faber_ledger.check_event_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, faber_ledger, pg_temp AS $$
DECLARE
  same faber_ledger.event;
BEGIN
  same := NEW;
  same.salt := OLD.salt;
  same.payload := OLD.payload;
  same.payload_hash := OLD.payload_hash;
  IF same IS NOT DISTINCT FROM OLD AND OLD.payload IS NOT NULL AND NEW.payload IS NULL AND NEW.salt IS NULL
      AND NEW.payload_hash IS NOT DISTINCT FROM sha256(OLD.salt || convert_to(OLD.payload, 'UTF8'))
      AND OLD.type NOT IN ('event_redacted', 'redaction_undone') AND EXISTS (
        SELECT FROM faber_ledger.redaction
        WHERE project = OLD.project AND run_id = OLD.run_id AND event_id = OLD.id
          AND NOT (OLD.type = 'run_adopted' AND of_blocks)
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

CREATE TRIGGER event_1_isolation BEFORE INSERT ON faber_ledger.event
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.check_isolation();
CREATE TRIGGER state_isolation BEFORE INSERT ON faber_ledger.state
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.check_isolation();
CREATE TRIGGER event_2_place BEFORE INSERT ON faber_ledger.event
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.place_event();
CREATE TRIGGER event_3_redaction AFTER INSERT ON faber_ledger.event
  FOR EACH ROW WHEN (NEW.type = 'event_redacted') EXECUTE FUNCTION faber_ledger.apply_redaction();
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON faber_ledger.event
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.check_event_change();
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON faber_ledger.event
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.refuse_change();
CREATE TRIGGER event_is_never_truncated BEFORE TRUNCATE ON faber_ledger.event
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.refuse_change();

CREATE TRIGGER redaction_is_never_changed BEFORE UPDATE OR DELETE ON faber_ledger.redaction
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.refuse_change();
CREATE TRIGGER redaction_is_never_truncated BEFORE TRUNCATE ON faber_ledger.redaction
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.refuse_change();
CREATE TRIGGER project_is_never_removed BEFORE DELETE ON faber_ledger.project
  FOR EACH ROW EXECUTE FUNCTION faber_ledger.refuse_change();
CREATE TRIGGER project_is_never_truncated BEFORE TRUNCATE ON faber_ledger.project
  FOR EACH STATEMENT EXECUTE FUNCTION faber_ledger.refuse_change();
