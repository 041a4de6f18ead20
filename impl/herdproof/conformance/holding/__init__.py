"""A spec and real code, taken through the same steps, and compared after each."""
