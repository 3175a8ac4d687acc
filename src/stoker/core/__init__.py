"""The pure core: what a job is, what may happen to it, and what is to happen next.

Nothing in here knows a clock, a file, a process or a socket.
"""
