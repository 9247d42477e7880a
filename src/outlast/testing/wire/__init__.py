"""Three wire formats as their providers check them, so that a window can be examined without a provider.

Each module has `rendered`, the window in that format, and `faults`, everything in it that the provider would refuse.
The rules are those of the providers' own error messages; `outlast.testing.validity` puts them together. What is really
sent is made by `outlast.models`; a test may give that to `faults` too.
"""
