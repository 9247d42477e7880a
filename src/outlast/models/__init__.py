"""What answers: the model port and its adapters (real providers, scripted, local).

An adapter imports its SDK only when it is used, and translates that SDK's errors at its own border.
"""
