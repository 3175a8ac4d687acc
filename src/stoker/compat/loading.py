"""Ctrl-C while one of the older tools' modules loads: it ends the program without a traceback."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal  # The module without the underscore imports others, which takes a while.


class Loading:
    """Use it as a context around imports; afterwards Ctrl-C means what it meant before."""

    _listens = False

    def __enter__(self) -> None:
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            try:
                _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
                self._listens = True
            except ValueError:
                pass  # Only the main thread may, and only it is interrupted.

    def __exit__(self, *_: object) -> None:
        if self._listens:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
