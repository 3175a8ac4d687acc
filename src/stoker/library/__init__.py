"""The Python library: calls as jobs with futures, grids and tasks, and a client for the rest."""
