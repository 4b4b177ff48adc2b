-- Hand the functions that run with their owner's rights to the keeper. Who is no superuser has to be able to become the
-- keeper for that, and who has made the role may let himself. A caller's settings must not change what a function's
-- literals mean, nor print its plans, whose estimates tell of rows that he does not see.

DO $$
DECLARE
  database_owner oid := (SELECT datdba FROM pg_catalog.pg_database WHERE datname = current_database());
  needs_grant boolean := CASE
    WHEN current_setting('server_version_num')::int >= 160000
    THEN NOT pg_has_role(current_user, 'faber_ledger_keeper', 'SET')
    ELSE NOT pg_has_role(current_user, 'faber_ledger_keeper', 'MEMBER')
  END;
  own regprocedure;
BEGIN
  IF pg_has_role(current_user, database_owner, 'USAGE') THEN
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO faber_ledger_member', current_database());
  END IF;
  BEGIN
    IF NOT pg_has_role(current_user, 'faber_ledger_member', 'USAGE') THEN
      GRANT faber_ledger_member TO CURRENT_USER;
    END IF;
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE insufficient_privilege USING
      MESSAGE = format('%s may not grant the role faber_ledger_member, which exists', current_user),
      HINT = format('a superuser runs: GRANT faber_ledger_member TO %I WITH ADMIN OPTION', current_user);
  END;
  IF needs_grant THEN
    GRANT faber_ledger_keeper TO CURRENT_USER;
  END IF;
  GRANT CREATE ON SCHEMA faber_ledger TO faber_ledger_keeper;
  FOR own IN
    SELECT oid FROM pg_catalog.pg_proc WHERE pronamespace = 'faber_ledger'::regnamespace AND prosecdef
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET standard_conforming_strings = on SET plan_cache_mode = force_generic_plan'
      ' SET debug_print_parse = off SET debug_print_rewritten = off SET debug_print_plan = off', own);
    EXECUTE format('ALTER FUNCTION %s OWNER TO faber_ledger_keeper', own);
  END LOOP;
  REVOKE CREATE ON SCHEMA faber_ledger FROM faber_ledger_keeper;
  -- Who owns the schema makes projects, and grants that to whom he likes.
  GRANT EXECUTE ON FUNCTION faber_ledger.add_project(text, text, name) TO CURRENT_USER WITH GRANT OPTION;
  IF needs_grant THEN
    REVOKE faber_ledger_keeper FROM CURRENT_USER;
  END IF;
END
$$;
