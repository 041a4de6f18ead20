"""What holds for any number of elements, by induction, with z3."""
