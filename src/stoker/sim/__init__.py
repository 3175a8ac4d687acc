"""A simulated world: virtual time, fake GPUs and processes, crashes at any step, one seed."""
