"""Edge coverage: fires every edge of the explored graph on the code, and compares."""
