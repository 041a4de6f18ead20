"""Random walks of a spec and real code, by seeds or drawn by Hypothesis."""
