"""The consumer connector's core: no socket, clock, thread or chance inside."""
