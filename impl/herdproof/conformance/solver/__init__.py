"""Induction on the code: puts it into states that z3 picks among those that were proved safe."""
