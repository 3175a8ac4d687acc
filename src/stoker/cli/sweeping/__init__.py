"""The work behind `stoker sweep`: queueing points, and showing what came of them."""
