"""On a daemon's PYTHONPATH: its ledger is written anew after every job, not once in 100,000."""

import sys

if "stoker.daemon.main" in sys.orig_argv:
    from stoker.executors import ledger

    ledger._REWRITE_AT_BYTES = 0
