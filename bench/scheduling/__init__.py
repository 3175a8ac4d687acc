"""How well Stoker decides: the real core in virtual time."""
