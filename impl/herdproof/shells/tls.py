"""TLS for wires of our own, either side of it, from files."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from herdproof.errors import CallerError


class BadTls(CallerError):
    """A certificate, key or list of authorities cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The files of the server's side, all PEM."""

    certificate: str
    """The server's certificate, followed by those between it and its authority."""
    key: str
    """Its private key, without a password."""
    client_authority: str = ""
    """Who signs clients' certificates; "" asks clients for none."""


def server_context(files: Tls) -> ssl.SSLContext:
    """TLS 1.2 or later with these files; raises `BadTls`, naming the setting and the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    readable("tls.certificate", files.certificate)
    readable("tls.key", files.key)
    try:
        context.load_cert_chain(files.certificate, files.key)
    except ssl.SSLError as problem:
        raise BadTls(
            f"tls.certificate {files.certificate} and tls.key {files.key} are no pair "
            f"({problem.reason or problem}): both are PEM files, the key without a password."
        ) from problem
    if files.client_authority:
        readable("tls.client_authority", files.client_authority)
        try:
            context.load_verify_locations(files.client_authority)
        except ssl.SSLError as problem:
            raise BadTls(
                f"tls.client_authority {files.client_authority} holds no PEM certificate "
                f"({problem.reason or problem})."
            ) from problem
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(authority: str = "", certificate: str = "", key: str = "") -> ssl.SSLContext:
    """
    TLS of who connects: the server's certificate is signed by `authority` ("": by a known one).

    `certificate` and `key` are the client's own, both or neither. Raises `BadTls`.
    """
    if bool(certificate) != bool(key):
        raise BadTls("tls.certificate and tls.key go together: a client has both, or neither.")
    for setting, file in (("authority", authority), ("certificate", certificate), ("key", key)):
        if file:
            readable(f"tls.{setting}", file)
    try:
        context = ssl.create_default_context(cafile=authority or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if certificate:
            context.load_cert_chain(certificate, key)
    except ssl.SSLError as problem:
        named = ", ".join(file for file in (authority, certificate, key) if file)
        raise BadTls(
            f"tls: {named} cannot be used ({problem.reason or problem}): PEM files, a key without "
            f"a password that belongs to its certificate."
        ) from problem
    return context


def readable(setting: str, file: str) -> None:
    """Refuse a file that cannot be read, which the ssl module would not name."""
    try:
        Path(file).read_bytes()
    except OSError as problem:
        raise BadTls(f"{setting} {file} cannot be read: {problem.strerror}.") from problem
