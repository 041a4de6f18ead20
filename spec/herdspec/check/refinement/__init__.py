"""Two specs side by side: one that refines the other, or a change of one."""
