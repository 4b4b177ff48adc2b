"""What happened becomes events: a hook call, session decisions, recording, spool, masking, redaction."""
