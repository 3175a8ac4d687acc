"""What the daemon does with each request: one file per verb or small family, listed in dispatch."""
