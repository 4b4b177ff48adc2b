"""Reconstitution: a run's context put together again from what is on disk (RECON); begin with `steps`."""
