"""`python -m stoker` is the command line."""

import signal

# Until the command is loaded and can say what Ctrl-C means, it ends it without a traceback.
listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if listens:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from stoker.cli.main import entry  # noqa: E402

if listens:
    signal.signal(signal.SIGINT, signal.default_int_handler)
entry()
