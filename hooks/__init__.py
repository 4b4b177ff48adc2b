"""The client's four hooks: the program they run, what each answers, and the client's settings.

The client starts `faber-ledger-hook …` at a session's start and end, and before and after a compaction. A hook reads
one delivery, appends what it means to the active run's ledger, and prints at most one text: a start's packet, or what
a compaction's summary should keep. It exits with 0 whatever happens; what goes wrong is a line in the hook log.

`main` is the program, `hook` what each hook does, and `client_settings` finds and edits them in a settings file's text.
Other agents are in the table of `agents`.
"""
