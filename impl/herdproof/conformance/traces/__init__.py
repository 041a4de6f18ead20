"""
Traces of any code: what it did, line by line, in the names of its spec.

`Tracer` writes them, `line.py` reads them, `ordering.py` puts those of several nodes into the order
in which things happened, `mapping.py` says what they are to the spec, `replay.py` holds them to it.
"""

from herdproof.conformance.traces.line import TraceError, TraceLine, read_files, read_line
from herdproof.conformance.traces.tracer import Tracer, open_trace

__all__ = ["TraceError", "TraceLine", "Tracer", "open_trace", "read_files", "read_line"]
