"""Ends of the command line: errors as one sentence, Ctrl-C and SIGTERM quietly, all tidied up."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup, TyperOption

from herdproof.cli.withdrawn import warn_of_withdrawn
from herdproof.errors import HerdError, Signalled
from herdspec.language.errors import HerdspecError

NOT_ASKED = 2
"""The exit code where nothing could be checked: usage, or something is missing."""
SIGNALLED = 128
"""Added to a signal's number: 130 after Ctrl-C, 143 after SIGTERM, 141 if nobody reads any more."""


class Commands(TyperGroup):
    """The commands, with what they all share: how they end."""

    def get_command(self, ctx: Any, name: str) -> Any:
        """A command, without the names of its options in the environment: they are said once."""
        command = super().get_command(ctx, name)
        for each in (command, *getattr(command, "commands", {}).values()):
            quiet(each.params if each else ())
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command and its words; of names that were withdrawn is told."""
        name, command, words = super().resolve_command(ctx, args)
        warn_of_withdrawn(name or "", words)
        return name, command, words

    def get_params(self, ctx: Any) -> Any:
        """The parameters that stand before a command."""
        params = super().get_params(ctx)
        quiet(params)
        return params

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what its user can put right is said in one sentence."""
        try:
            with sigterm_unwinds(), kazoo_is_quiet():
                return super().invoke(ctx)
        except BrokenPipeError:
            unread()
            raise typer.Exit(SIGNALLED + signal.SIGPIPE) from None
        except (HerdError, HerdspecError) as error:
            notes: list[str] = getattr(error, "__notes__", [])
            raise refused("\n".join([str(error), *notes])) from None
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in ("herdproof", "herdspec"):
                raise
            raise refused(missing(error.name)) from None
        except EOFError as error:
            raise RuntimeError("an end of input that nobody handled") from error  # not click's 1
        except KeyboardInterrupt:
            raise typer.Exit(SIGNALLED + signal.SIGINT) from None


def unread() -> None:
    """Give what is still to be printed to nobody: whoever read it has gone (`| head`)."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None and not stream.isatty():
            os.dup2(nobody, stream.fileno())
    os.close(nobody)


def quiet(parameters: Iterable[object]) -> None:
    """Let help not repeat at each option how it is called in the environment."""
    for parameter in parameters:
        if isinstance(parameter, TyperOption):
            parameter.show_envvar = False


@contextmanager
def sigterm_unwinds() -> Iterator[None]:
    """Within this context SIGTERM unwinds the stack as Ctrl-C does, so that children are ended."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def kazoo_is_quiet() -> Iterator[None]:
    """Within this context kazoo logs no lost connections: those that matter are said by us."""
    log = logging.getLogger("herdproof.zookeeper.kazoo")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def unwind(number: int, frame: object) -> NoReturn:
    """Leave, with the code that says by which signal."""
    del frame
    raise Signalled(SIGNALLED + number)


def missing(module: str) -> str:
    """The words for a library that is not there."""
    return f"{module} is not installed: run `pip install herdproof`; `herdproof doctor` says more"


def refused(message: str) -> typer.Exit:
    """Say why nothing can be checked."""
    print(f"herdproof: {message}", file=sys.stderr)
    return typer.Exit(NOT_ASKED)
