-- Every text sorts by its bytes, as in a ledger file: `(seq, id)` is one order everywhere.

CREATE TABLE faber_ledger.project (
  id text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[0-7][0-9A-HJKMNP-TV-Z]{25}$'),
  name text COLLATE "C" NOT NULL CHECK (char_length(name) BETWEEN 1 AND 255),
  created_at timestamptz NOT NULL DEFAULT now()
);

-- Which database roles see a project: a login, or a group of logins. Its name may be another role's later.
CREATE TABLE faber_ledger.member (
  project text COLLATE "C" NOT NULL REFERENCES faber_ledger.project,
  role name NOT NULL,
  role_oid oid NOT NULL,
  is_admin boolean NOT NULL DEFAULT false,
  PRIMARY KEY (project, role)
);

-- Logins that were made with a code for their password, and see a project once they have used it.
CREATE TABLE faber_ledger.invitation (
  project text COLLATE "C" NOT NULL REFERENCES faber_ledger.project,
  role_oid oid NOT NULL,
  is_admin boolean NOT NULL,
  until timestamptz NOT NULL DEFAULT now() + interval '24 hours',
  PRIMARY KEY (project, role_oid)
);

CREATE INDEX member_role ON faber_ledger.member (role_oid);

-- Whose a clone is: the login of its first exchange, or whom an admin has named since. `writer` is the clone's id.
CREATE TABLE faber_ledger.clone (
  project text COLLATE "C" NOT NULL REFERENCES faber_ledger.project,
  writer text COLLATE "C" NOT NULL CHECK (char_length(writer) BETWEEN 1 AND 4096),
  role name NOT NULL,
  role_oid oid NOT NULL,
  PRIMARY KEY (project, writer)
);

-- An event as in a ledger file, byte for byte, its position, and the login that brought it. A row is one of three: an
-- event with its payload, an event whose payload was removed, or the place of a refused event, on which later ones stand.
CREATE TABLE faber_ledger.event (
  project text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  position bigint NOT NULL,
  seq bigint NOT NULL CHECK (seq BETWEEN 1 AND 9007199254740992),
  id text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL CHECK (type ~ '^[a-z_]{1,64}$'),
  version integer NOT NULL,
  at text COLLATE "C" NOT NULL CHECK (char_length(at) <= 64),
  writer text COLLATE "C" NOT NULL CHECK (char_length(writer) <= 4096),
  session_id text COLLATE "C" CHECK (char_length(session_id) <= 4096),
  client text COLLATE "C" CHECK (char_length(client) <= 4096),
  parents bytea NOT NULL CHECK (octet_length(parents) % 32 = 0 AND octet_length(parents) <= 524288),
  salt bytea,
  payload text COLLATE "C" CHECK (octet_length(payload) <= 8388608),
  payload_hash bytea,
  hash bytea NOT NULL CHECK (octet_length(hash) = 32),
  pushed_by name NOT NULL DEFAULT session_user,
  received_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project, run_id, id),
  UNIQUE (project, position),
  CONSTRAINT run_id_has_its_form CHECK (
    char_length(run_id) <= 255
    AND run_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,2}$'
  ),
  CONSTRAINT event_has_its_form CHECK (
    CASE WHEN version = 0
      THEN type = 'refused' AND id ~ '^refused-[0-9a-f]{64}$' AND at = '' AND writer = '' AND session_id IS NULL
        AND client IS NULL AND salt IS NULL AND payload IS NULL AND payload_hash IS NULL
      ELSE id ~ '^[0-7][0-9A-HJKMNP-TV-Z]{25}$' AND version BETWEEN 1 AND 999999999 AND at <> '' AND writer <> ''
        AND CASE WHEN payload IS NULL
          THEN salt IS NULL AND payload_hash IS NOT NULL AND octet_length(payload_hash) = 32
          ELSE salt IS NOT NULL AND octet_length(salt) = 16 AND payload_hash IS NULL
        END
    END
  )
);

CREATE INDEX event_run ON faber_ledger.event (project, run_id, position);

-- The newest state.json of each run. `at`: its `updated_at` in UTC, '' if it has none. `log_end`: the last event in the
-- log of the clone that pushed it, '' if it has none.
CREATE TABLE faber_ledger.state (
  project text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  at text COLLATE "C" NOT NULL CHECK (char_length(at) <= 64),
  writer text COLLATE "C" NOT NULL CHECK (char_length(writer) <= 4096),
  content text COLLATE "C" NOT NULL CHECK (octet_length(content) <= 67108864),
  log_end text COLLATE "C" NOT NULL CHECK (char_length(log_end) <= 72),
  pushed_by name NOT NULL DEFAULT session_user,
  received_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project, run_id),
  CONSTRAINT run_id_has_its_form CHECK (
    char_length(run_id) <= 255
    AND run_id ~ '^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,2}$'
  )
);

-- Which events are redacted by which, noted also of events that have not arrived yet. It removes a payload if an admin
-- pushed it, or the login whose clone wrote the event; not one that an admin has put back (`is_undone`).
CREATE TABLE faber_ledger.redaction (
  project text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  by_event text COLLATE "C" NOT NULL,
  role_oid oid NOT NULL,
  by_admin boolean NOT NULL,
  is_undone boolean NOT NULL DEFAULT false,
  PRIMARY KEY (project, run_id, event_id, by_event)
);

-- What redactions removed, for an admin, for 30 days.
CREATE TABLE faber_ledger.removed (
  project text COLLATE "C" NOT NULL,
  run_id text COLLATE "C" NOT NULL,
  event_id text COLLATE "C" NOT NULL,
  salt bytea NOT NULL,
  payload text COLLATE "C" NOT NULL,
  removed_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project, run_id, event_id)
);
