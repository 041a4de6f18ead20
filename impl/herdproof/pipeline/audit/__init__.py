"""The audit: reads traces, judges groups, writes tables; of files, or of lines that keep coming."""
