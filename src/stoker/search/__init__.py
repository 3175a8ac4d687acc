"""Searches that learn: which point is tried next follows from what came of those before."""
