"""`stoker doctor`: facts about this machine and its Stoker, and what to do about them."""
