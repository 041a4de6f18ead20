"""Docker for the integration suite: an engine that answers, and the images that the tests run."""
