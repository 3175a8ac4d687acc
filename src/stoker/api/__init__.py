"""What a front end may know of the daemon: its places, its messages, and how to reach it."""
