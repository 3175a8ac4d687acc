"""`python -m stoker` is the command line."""

from stoker.cli import start

start()
