"""The page: an HTTP server in a process of its own, a front end of the daemon like any other."""
