"""The command line: one file a verb, each imported only when that verb is used."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # The module without the underscore imports others, which takes a while.


def start() -> None:
    """Load the command line and run it, to the end of the process.

    It is here, and not in the script `stoker`, because Python compiles a script at each start.
    """
    # Until the command is loaded and can say what Ctrl-C means, it ends it without a traceback.
    listens = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if listens:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

    from stoker.cli.main import entry

    if listens:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    entry()
