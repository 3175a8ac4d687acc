"""A seeded driver that treats Stoker badly, for as long as one likes, and checks its laws.

`make torture SECONDS=600 SEED=7`. The parts, in the order in which a run uses them:

schedule    what is done when, from the seed alone
built, c/   the program that jobs are, and the library that lets calls fail, both in C
place       the directories of a run: a home that can be full, records that never are
shim        which calls fail now, in which of Stoker's processes
shapes      jobs of all kinds, and how each front end is told of them
clients     front ends as processes, attached ones on a terminal of their own
hands       cancels, which are watched until the end was told
stoker_processes   who is the daemon, its keeper, the page
faults      kills, stops and shortages
driver      does what the schedule says
records     what the jobs say of themselves
ending      quiet, then all that Stoker says at the end
laws        compares both: what must hold, and what does not
report      the table
"""
