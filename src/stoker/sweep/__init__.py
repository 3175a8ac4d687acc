"""Parameter spaces: how they are written, the points in them, and the command of each point."""
