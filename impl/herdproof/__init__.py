"""Consumer-group coordination that is specified, proved, tested and run from one source."""

import logging

# A library says nothing of its own accord: whoever uses it decides where its log goes.
logging.getLogger(__name__).addHandler(logging.NullHandler())
