"""Executors: what runs attempts."""
