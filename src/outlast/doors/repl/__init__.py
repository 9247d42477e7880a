"""The terminal: one session at a time, to talk in (`repl`) or to ask once (`one_shot`).

Both are followers of the log: what they show is what is stored, whoever drives the session. What is typed is admitted
durably before anything is done with it, so a closed terminal loses nothing.
"""
