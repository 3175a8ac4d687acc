"""The daemon: the engine in a loop, behind a socket."""
