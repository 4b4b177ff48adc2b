-- Roles belong to the whole server. Another database of it may have made the members' one; nobody else may have made the
-- keeper of this one, or be in it: he would have its rights.

DO $$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY ARRAY['faber_ledger_member', 'faber_ledger_keeper'] LOOP
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN -- another upgrade was quicker
        NULL;
      END;
    ELSIF EXISTS (
      SELECT FROM pg_catalog.pg_roles
      WHERE rolname = wanted AND (rolcanlogin OR rolsuper OR rolbypassrls OR rolcreaterole)
    ) THEN
      RAISE insufficient_privilege USING MESSAGE = format('role %s exists, and may do more than faber-ledger''s', wanted);
    END IF;
  END LOOP;
  IF EXISTS (
    SELECT FROM pg_catalog.pg_auth_members
    WHERE roleid = 'faber_ledger_keeper'::regrole AND member <> (
      SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user
    )
  ) THEN
    RAISE insufficient_privilege USING
      MESSAGE = 'role faber_ledger_keeper exists, and somebody is in it, who would see everything',
      HINT = 'a superuser runs: DROP ROLE faber_ledger_keeper';
  END IF;
END
$$;
