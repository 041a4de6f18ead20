"""The group protocol as traces are replayed in it: by whoever wrote them."""
