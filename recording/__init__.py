"""What happened becomes events: a hook call, the start and end of sessions, and redactions.

A call (`call`) is a delivery as the client made it; an arrival (`incoming`) is a call about one run, with what was
known when it came. It is first a file in the inbox (`inbox`), and `facts_of` (`incoming`, with `sessions`) decides
which facts it becomes. A recording (`recording`) is one locked transaction on a run: read, decide, append, project. It
first adds what waits in the inbox.

`start` begins runs, `secrets` masks them in free text where it enters, and `redact` removes what must
not be there from the log and from the files beside it.
"""
