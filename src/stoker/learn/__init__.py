"""What is learned from jobs that have run."""
