"""Checks what must happen in the end, if nothing fair is put off for ever."""
