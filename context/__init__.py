"""What the agent is given at a session's start, and how a run's context is put together again.

- `workflow`, `selection`, `conditions`: which artifacts a run's workflow asks for;
- `artifact` and the modules named after it: what an artifact is, where it comes from, and how its content is read;
- `reload`: one reload of context, from the workflow to the facts that are recorded;
- `packet`, `position`, `artifacts`, `body`, `focus`, `outline`, `messages`, `notes`: the text that the agent is given;
- `reconstitution/`: a run's context put together again from what is on disk.
"""
