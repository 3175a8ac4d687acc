"""`stoker selftest`: does Stoker do on this machine's GPUs what it says?"""
