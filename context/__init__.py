"""What the agent is given at a session's start, and how a run's context is put together again.

- `workflow`: which artifacts a run's workflow asks for;
- `artifact` and the modules named after it: where an artifact comes from, how its content is read, and what failed;
- `reload`: one reload of context, from the workflow to the facts that are recorded;
- `packet`, `position`, `outline`, `elsewhere`: the text that the agent is given;
- `reconstitution/`: a run's context put together again from what is on disk.
"""
