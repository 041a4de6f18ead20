"""
The deterministic world in which the cores are tried: no socket, no clock, no thread, no chance.

It imports nothing from `herdspec`, so that a spec and the world it is compared with share no code.
"""
