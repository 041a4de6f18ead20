"""System B's cores in a world where everything waits until it is let go: held to the spec."""
