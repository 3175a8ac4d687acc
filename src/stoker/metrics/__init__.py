"""Metrics: named series of numbers of an attempt, found in its log, in files, or reported by it."""
