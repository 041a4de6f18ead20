"""What must happen in the end, if what is fair is not put off for ever."""
