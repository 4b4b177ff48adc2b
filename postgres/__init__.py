"""The team's shared ledger: one PostgreSQL server, to which clones push their events and from which they fetch them.

A *project* is identified by its id; its *members* are roles of the database, and the functions that they call decide
what they see. A *position* says when an event arrived: who asks for those after the last one misses nothing.
The one folder that knows psycopg, which the extra `postgres` installs.
"""
