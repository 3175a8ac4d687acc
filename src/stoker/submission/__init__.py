"""The one way in for a job: what a user said, in any front end, becomes one submission message."""
