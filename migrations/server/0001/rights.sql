-- `faber_ledger_member` is granted to the logins of people and machines; `faber_ledger_keeper` to nobody: it owns the
-- functions that do what a member may not.

GRANT USAGE ON SCHEMA faber_ledger TO faber_ledger_member, faber_ledger_keeper;

GRANT SELECT ON faber_ledger.alembic_version, faber_ledger.project, faber_ledger.member, faber_ledger.event,
  faber_ledger.document TO faber_ledger_member;
GRANT INSERT ON faber_ledger.event, faber_ledger.document TO faber_ledger_member;

GRANT SELECT, INSERT, UPDATE (name) ON faber_ledger.project TO faber_ledger_keeper; -- UPDATE: to lock a row
GRANT SELECT, INSERT, UPDATE (is_admin), DELETE ON faber_ledger.member TO faber_ledger_keeper;
GRANT SELECT, UPDATE (salt, payload, payload_hash) ON faber_ledger.event TO faber_ledger_keeper;
GRANT SELECT, UPDATE (content), DELETE ON faber_ledger.document TO faber_ledger_keeper;
GRANT SELECT, INSERT ON faber_ledger.redaction TO faber_ledger_keeper;
GRANT USAGE ON SEQUENCE faber_ledger.position_number TO faber_ledger_keeper;

ALTER TABLE faber_ledger.project ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.member ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.event ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.document ENABLE ROW LEVEL SECURITY;
ALTER TABLE faber_ledger.redaction ENABLE ROW LEVEL SECURITY;

-- With the sub-select the function is called once per query, not once per row.
CREATE POLICY sees ON faber_ledger.project FOR SELECT TO faber_ledger_member
  USING (id IN (SELECT faber_ledger.my_projects()));
CREATE POLICY sees ON faber_ledger.member FOR SELECT TO faber_ledger_member
  USING (project IN (SELECT faber_ledger.my_projects()));
CREATE POLICY sees ON faber_ledger.event FOR SELECT TO faber_ledger_member
  USING (project IN (SELECT faber_ledger.my_projects()));
CREATE POLICY adds ON faber_ledger.event FOR INSERT TO faber_ledger_member
  WITH CHECK (project IN (SELECT faber_ledger.my_projects()));
CREATE POLICY sees ON faber_ledger.document FOR SELECT TO faber_ledger_member
  USING (project IN (SELECT faber_ledger.my_projects()));
CREATE POLICY adds ON faber_ledger.document FOR INSERT TO faber_ledger_member
  WITH CHECK (project IN (SELECT faber_ledger.my_projects()));

CREATE POLICY keeps ON faber_ledger.project TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.member TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.event TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.document TO faber_ledger_keeper USING (true);
CREATE POLICY keeps ON faber_ledger.redaction TO faber_ledger_keeper USING (true);

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA faber_ledger FROM PUBLIC;
GRANT EXECUTE ON FUNCTION faber_ledger.my_projects(), faber_ledger.register_project(text, text),
  faber_ledger.admit(text, name, boolean), faber_ledger.expel(text, name) TO faber_ledger_member;
GRANT EXECUTE ON FUNCTION faber_ledger.my_projects(), faber_ledger.is_owner(), faber_ledger.is_project_admin(text),
  faber_ledger.may_insert(text) TO faber_ledger_keeper;
