"""Three wire formats with their providers' checks, so that a window can be validated without a provider.

Each module has `rendered`, which converts a window to the format, and `faults`, which lists what the provider would
refuse. The rules follow the providers' own error messages; `outlast.testing.validity` combines them. `outlast.models`
builds the real requests; a test can pass those to `faults` too.
"""
