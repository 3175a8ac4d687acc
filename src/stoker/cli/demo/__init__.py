"""`stoker demo`: a short show of what Stoker does, on stand-in GPUs and in a home of its own."""
