"""Every edge of the explored graph, taken on the code."""
