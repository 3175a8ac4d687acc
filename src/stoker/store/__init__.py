"""Stores: where the record of all jobs is kept."""
