"""What the two measuring scripts share. They use only the public surfaces of both versions.

`library.py`, `commands.py` and `pace.py` run inside the interpreter of the version that is measured, as scripts of
their own; everything else runs in the interpreter that was started, and needs only the standard library.
"""
