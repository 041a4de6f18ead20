"""The analyses of a spec, a folder each; `verify` does all of them by a plan."""
