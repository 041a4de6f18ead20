"""Traces of group coordinators for the audit: each group is replayed by itself."""

from __future__ import annotations

from herdproof.pipeline.audit.map_trace import MapAuditor


class GroupsAuditor(MapAuditor):
    """What the pipeline knows of group coordinators' traces: no more than their map says."""

    grouped = True
