"""States that z3 picks among what was proved, and the code put into them."""
