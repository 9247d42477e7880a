"""Terminal doors: the interactive REPL (`repl.py`) and the single-turn `outlast -p` (`print_mode.py`).

Both follow the event log: they show what is stored, no matter which process drives the session. Input is committed
durably before anything acts on it, so closing the terminal loses nothing.
"""
