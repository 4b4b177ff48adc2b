-- Roles belong to the whole server, so another database of it may have made them.

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
END
$$;
