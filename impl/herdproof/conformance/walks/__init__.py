"""Random walks of a spec and real code together, by seeds or drawn by Hypothesis."""
