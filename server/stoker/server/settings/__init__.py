"""Configuration: typed settings from defaults, TOML, environment and flags; CPU limits; logs.

It imports no other room. Only this room reads the environment.
"""
