"""The model port and its adapters (real providers, scripted, local).

An adapter imports its SDK only on use and translates the SDK's errors to `outlast.core.errors` itself.
"""
