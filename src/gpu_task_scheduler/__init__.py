"""GPUTaskScheduler's package, on Stoker: existing code runs unchanged."""
