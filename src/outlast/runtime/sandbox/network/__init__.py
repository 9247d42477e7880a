"""The network of sandboxed commands: a filtering proxy outside, a relay to it inside, and what tools need to use it."""
