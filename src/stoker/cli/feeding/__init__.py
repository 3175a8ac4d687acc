"""A feed: commands read line by line and run as they arrive, on the daemon's engine."""
