"""One data file, byte for byte the pinned one, or the reasons why it cannot be had.

A file is looked for in the folder that SONODE_DATA_DIR names, then in the user's cache, then
on the network (not where SONODE_OFFLINE=1). Its sha256 is checked wherever it lies, every
time. A wrong file in the user's own folder is an error; in the cache it is put aside and
fetched again; a wrong download is never stored.
"""

import hashlib
import os
import queue
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pooch
import requests
import urllib3

CONNECT, READ, DEADLINE = 1.5, 10.0, 180.0  # seconds: to connect, between bytes, in all
ATTEMPTS = 2  # at each address
SECURE = "https://"


class Source(NamedTuple):
    """A file: its name, pinned sha256, size in bytes, and the addresses it is kept at."""

    name: str
    sha256: str
    size: int
    urls: tuple


class Found(NamedTuple):
    """The checked content of a file, and where it was found in words."""

    content: bytes
    place: str


class DataMissing(Exception):
    """The file could not be had anywhere; the message says where it was looked for."""


class WrongFile(Exception):
    """A file is there, but it is not the pinned one."""


def find(source):
    """The content of a pinned file from the first place that has it. -> Found

    Raises WrongFile where SONODE_DATA_DIR holds another file under that name, DataMissing
    where no place has it.
    """
    for look in (_in_data_dir, _in_cache, _on_network):
        found = look(source)
        if isinstance(found, Found):
            return found
    raise DataMissing(
        f"{source.name} is not in SONODE_DATA_DIR ({_data_dir() or 'not set'}), not in the "
        f"cache ({cache_folder()}), and not fetched: {found}. To have it, put the original "
        f"(sha256 {source.sha256}) into a folder and set SONODE_DATA_DIR to it; it is kept "
        f"at {source.urls[0]}"
    )


@cache
def say(text):
    """Print a notice to stderr, the same one once a process."""
    print(text, file=sys.stderr)


def _data_dir():
    return os.environ.get("SONODE_DATA_DIR", "")


def cache_folder():
    """Where downloads are kept: the operating system's cache folder for `sonode`."""
    return Path(pooch.os_cache("sonode")).expanduser()


def _in_data_dir(source):
    if not _data_dir():
        return None
    folder = Path(_data_dir()).expanduser()
    if not folder.is_dir():
        say(f"SONODE_DATA_DIR={folder} is not a folder")
    for path in folder / source.name, folder / "mnist" / source.name:
        if path.exists():
            advice = "Put the original in its place, remove it, or unset SONODE_DATA_DIR."
            return Found(_checked(path, source, advice), "SONODE_DATA_DIR")
    return None


def _in_cache(source):
    path = cache_folder() / source.name
    try:
        if path.exists():
            return Found(_checked(path, source, "It is put aside."), "cache")
    except WrongFile as error:
        say(str(error))
        with suppress(OSError):  # a cache that cannot be written: it is not used all the same
            os.replace(path, path.with_name(path.name + ".wrong"))
    return None


def _checked(path, source, advice):
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WrongFile(f"{path} cannot be read ({error.strerror}). {advice}") from None
    return check(content, source, str(path), advice)


def check(content, source, where, advice):
    """The content itself if it is the pinned file's, else WrongFile with both hashes."""
    found = hashlib.sha256(content).hexdigest()
    if found == source.sha256:
        return content
    raise WrongFile(
        f"{where} is not the original {source.name}: {_what(content, source)}.\n"
        f"  sha256 expected {source.sha256}\n  sha256 found    {found}\n{advice}"
    )


def _what(content, source):
    """What a wrong file looks like, in words."""
    if not content:
        return "it is empty"
    if len(content) == source.size:
        return "it has other content of the same length"
    word = "cut short" if len(content) < source.size else "too long"
    word = "an HTML page" if content.lstrip()[:1] == b"<" else word
    return f"it is {word} ({len(content):,} of {source.size:,} bytes)"


def _on_network(source):
    """Found, or the reason in words why nothing came of it."""
    if os.environ.get("SONODE_OFFLINE", "0") not in ("", "0"):
        return "SONODE_OFFLINE is set"
    return _fetch(source)


@cache
def _fetch(source):
    """Try every address; remember the outcome for the life of the process."""
    reasons = []
    for url in source.urls:
        for _ in range(ATTEMPTS):
            host = urlsplit(url).hostname
            if not _reachable(url):
                reasons.append(f"cannot connect to {host}")
                break
            try:
                return Found(_retrieve(url, source), f"download from {host}")
            except WrongFile as error:
                say(str(error))
                reasons.append(f"{host} sent a wrong file")
            except OSError as error:  # all of requests' exceptions are, too
                reasons.append(f"{host}: {type(error).__name__}: {str(error)[:120]}")
    return "; ".join(dict.fromkeys(reasons))


def _retrieve(url, source):
    """Through pooch: a temporary file, moved into the cache once its hash is right."""
    pooch.get_logger().setLevel("WARNING")
    say(f"fetching {source.name} ({source.size / 1e6:.1f} MB) from {urlsplit(url).hostname}")
    folder = cache_folder()
    with tempfile.TemporaryDirectory() as spare:
        if not _writable(folder):
            say(f"{folder} cannot be written: {source.name} is used and not kept")
            folder = Path(spare)
        known = {"known_hash": source.sha256, "fname": source.name, "path": folder}
        path = pooch.retrieve(url, **known, downloader=_downloader(source))
        return check(Path(path).read_bytes(), source, url, "")


def _writable(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _downloader(source):
    """pooch's hook: what the server sends, checked before pooch may keep it."""

    def download(url, output_file, _):
        identity = {"Accept-Encoding": "identity"}
        with requests.get(url, stream=True, timeout=(CONNECT, READ), headers=identity) as r:
            r.raise_for_status()
            if not all(page.url.startswith(SECURE) for page in (*r.history, r)):
                raise requests.exceptions.InvalidURL(f"{r.url} is not {SECURE}")
            content, advice = _read(r.raw, source.size)
        Path(output_file).write_bytes(check(content, source, url, advice))

    return download


def _read(stream, size):
    """All that comes, up to one byte too many, and what broke it off if anything did."""
    content, end = bytearray(), time.monotonic() + DEADLINE
    try:
        while len(content) <= size and (block := stream.read1(1 << 16)):
            content += block
            if time.monotonic() > end:
                return bytes(content), f"It took over {DEADLINE:g} s and is not used."
    except urllib3.exceptions.HTTPError as error:
        return bytes(content), f"The connection broke ({type(error).__name__}); not used."
    return bytes(content[: size + 1]), "It is not used."


def _reachable(url):
    """Does the server, or the proxy before it, accept a connection?"""
    proxies = requests.utils.get_environ_proxies(url)
    where = urlsplit(requests.utils.select_proxy(url, proxies) or url)
    return _accepts(where.hostname, where.port or (80 if where.scheme == "http" else 443))


@cache
def _accepts(host, port):
    """Is there an answer within CONNECT seconds? Remembered for the life of the process.

    Asked in a thread: looking up a host's name has no time-out of its own.
    """
    answer = queue.SimpleQueue()

    def connect():
        try:
            socket.create_connection((host, port), CONNECT).close()
            answer.put(True)
        except OSError:
            answer.put(False)

    threading.Thread(target=connect, daemon=True).start()
    try:
        return answer.get(timeout=CONNECT)
    except queue.Empty:
        return False
