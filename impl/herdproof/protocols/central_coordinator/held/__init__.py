"""System B's cores held to the spec, in a world where everything waits until it is let go."""
