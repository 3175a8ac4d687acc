"""How jobs, GPUs, times and logs are said, in the terminal, the live view and Python alike."""
