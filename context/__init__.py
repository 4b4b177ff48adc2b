"""What the agent is given: workflow, conditions, artifacts, packet, notes."""
