"""The binary formats of system B's wire: messages, frames, and both of their codecs."""
