"""The group coordinator's core: no socket, clock, thread or chance inside."""
