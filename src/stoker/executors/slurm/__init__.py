"""Attempts as jobs of a Slurm cluster, by Slurm's own commands."""
