"""The parts of `stoker batch`: entries translated, queued together, and followed to the end."""
