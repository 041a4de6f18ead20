"""The audit: traces read, groups judged, tables written; of files, or of what goes on coming."""
