"""`python -m stoker` is the command line."""

try:
    from stoker.cli import start

    start()
except KeyboardInterrupt:  # Ctrl-C before the command line is there to say what it means.
    raise SystemExit(130) from None
