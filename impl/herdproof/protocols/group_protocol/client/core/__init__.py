"""The client's core, under the document's names: no socket, clock, thread or chance inside."""
