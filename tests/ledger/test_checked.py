"""Reading a log with every event checked returns what reading it returns, and finds every change."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from support.sizes import pick
from support.worked_clones import Work, do_work, worked

from faber_ledger.ledger.log import Log
from faber_ledger.ledger.verify import read_verified
from faber_ledger.projections.fold import fold


@pytest.mark.long
@given(worked)
@settings(max_examples=pick(8, 20))
def test_verified_events_are_the_streams_and_fold_to_the_same(work: Work) -> None:
    with tempfile.TemporaryDirectory() as name:
        for path in do_work(Path(name), work).paths:
            with Log.read(path) as log:
                events = list(log.stream())
                assert list(read_verified(log)) == events
                assert json.dumps(fold(read_verified(log))) == json.dumps(fold(events))
