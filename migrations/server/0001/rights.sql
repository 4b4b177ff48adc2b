-- `faber_ledger_member` is granted to the logins of people and machines: to ask, by functions, and nothing else. The
-- keeper's role is granted to nobody: it owns these functions. Each database has a keeper of its own, since a role
-- belongs to the whole server, and who has made it may let himself into it.

GRANT USAGE ON SCHEMA faber_ledger TO faber_ledger_member, faber_ledger_keeper;
GRANT SELECT ON faber_ledger.alembic_version TO faber_ledger_member;

GRANT SELECT, INSERT, UPDATE (name) ON faber_ledger.project TO faber_ledger_keeper; -- UPDATE: to lock a row
GRANT SELECT, INSERT, UPDATE (role_oid, is_admin), DELETE ON faber_ledger.member TO faber_ledger_keeper;
GRANT SELECT, INSERT, UPDATE (salt, payload, payload_hash) ON faber_ledger.event TO faber_ledger_keeper;
GRANT SELECT, INSERT, UPDATE, DELETE ON faber_ledger.state, faber_ledger.removed TO faber_ledger_keeper;
GRANT SELECT, INSERT, DELETE ON faber_ledger.invitation TO faber_ledger_keeper;
GRANT SELECT, INSERT, UPDATE (is_undone) ON faber_ledger.redaction TO faber_ledger_keeper;
GRANT SELECT, INSERT, UPDATE (role, role_oid) ON faber_ledger.clone TO faber_ledger_keeper;

-- Without a policy, who is granted a table by mistake sees nothing in it.
ALTER TABLE faber_ledger.project ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.member ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.event ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.state ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.redaction ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.removed ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.invitation ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.clone ENABLE ROW LEVEL SECURITY;

CREATE POLICY keeps ON faber_ledger.project TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.member TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.event TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.state TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.redaction TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.removed TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.invitation TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.clone TO faber_ledger_keeper USING (true);

-- Who has a table with a column of such a type would stop an upgrade that changes it.
REVOKE ALL ON TYPE faber_ledger.project, faber_ledger.member, faber_ledger.event, faber_ledger.state,
  faber_ledger.redaction, faber_ledger.removed, faber_ledger.clone, faber_ledger.invitation FROM PUBLIC;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA faber_ledger FROM PUBLIC;
GRANT EXECUTE ON FUNCTION faber_ledger.admit(text, name, boolean),
  faber_ledger.expel(text, name, boolean), faber_ledger.projects(), faber_ledger.members(text), faber_ledger.newest_event(text),
  faber_ledger.newest_event(text, text), faber_ledger.has_event(text, bigint, text),
  faber_ledger.runs_with_news(text, bigint, bigint), faber_ledger.count_events(text, text, bigint),
  faber_ledger.events_after(text, text, bigint, bigint, bigint),
  faber_ledger.events_with_ids(text, text, text[], bigint, bigint, bigint),
  faber_ledger.push_events(
    text, text, bigint[], text[], text[], integer[], text[], text[], text[], text[], bytea[], bytea[], text[], bytea[],
    bytea[]
  ),
  faber_ledger.state_of(text, text), faber_ledger.put_state(text, text, text, text, text, text, bytea, text[]),
  faber_ledger.invite(text, name, boolean), faber_ledger.accept_invitation(), faber_ledger.claim_clone(text, text), faber_ledger.give_clone(text, text, name),
  faber_ledger.who_brought(text, text[], text[]), faber_ledger.restore_event(text, text),
  faber_ledger.purge_event(text, text), faber_ledger.tell_readers(text), faber_ledger.newest_of_runs(text), faber_ledger.session_events(text, text[]),
  faber_ledger.newest_states(text, text[]),
  faber_ledger.find_events(text[], text[], text, text, text, text, integer),
  faber_ledger.find_states(text[], text[], text, text, text, text, integer)
  TO faber_ledger_member;
GRANT EXECUTE ON FUNCTION faber_ledger.parse_json(text), faber_ledger.words_of(text),
  faber_ledger.event_words(text, text, text), faber_ledger.state_words(text, text), faber_ledger.state_at_a_glance(text),
  faber_ledger.short_members(jsonb, text[]),
  faber_ledger.redaction_target(text, text)
  TO faber_ledger_keeper; -- whose statements call them
