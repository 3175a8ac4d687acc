"""The benchmarks, one file for each kind of question."""
