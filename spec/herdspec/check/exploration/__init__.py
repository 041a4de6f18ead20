"""Every reachable state at given sizes: searched, counted, drawn."""
