"""Telling users what has ended: the process that sends messages and runs hooks."""
