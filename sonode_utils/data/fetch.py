"""One data file, byte for byte the pinned one, or the reasons why it cannot be had.

Looked for in the folder that SONODE_DATA_DIR names, then in the user's cache, then on the
network (not where SONODE_OFFLINE=1). The sha256 is checked wherever the file lies: a wrong one
in the user's folder is an error, in the cache it is fetched again, a download is not stored.
"""

import os
import socket
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pooch
import requests
from requests.utils import prepend_scheme_if_needed

CONNECT, READ = 1.5, 10.0  # seconds: to look up a name and connect, between bytes
ADVICE = "Put the original in its place, remove it, or unset SONODE_DATA_DIR."


class Source(NamedTuple):
    """A file: its name, pinned sha256, size in bytes, and the addresses it is kept at."""

    name: str
    sha256: str
    size: int
    urls: tuple[str, ...]


class DataMissing(Exception):
    """No place has the file; the message says where it was looked for."""


class WrongFile(Exception):
    """A file of this name is there, but it is not the pinned one."""


def find(source: Source) -> tuple[bytes, str]:
    """The content of a pinned file and where it lay, in words; else one of the two errors."""
    folder = os.environ.get("SONODE_DATA_DIR", "")
    here = Path(folder).expanduser()
    kept = Path(pooch.os_cache("sonode"), source.name).expanduser()
    try:
        if folder and not here.is_dir():
            warn_once(f"SONODE_DATA_DIR={folder} is not a folder")
        elif folder:
            os.listdir(here)
    except OSError as error:
        raise WrongFile(
            f"SONODE_DATA_DIR={folder} cannot be read ({error.strerror}). "
            "Make the folder readable, name another one, or unset SONODE_DATA_DIR."
        ) from None
    for path in (here / source.name, here / "mnist" / source.name):
        if folder and path.exists():
            return _checked(path, source), "SONODE_DATA_DIR"
    if kept.is_file() and pooch.file_hash(kept) == source.sha256:
        return kept.read_bytes(), "cache"
    offline = os.environ.get("SONODE_OFFLINE", "0") not in ("", "0")
    content, outcome = (None, "SONODE_OFFLINE is set") if offline else _fetch(source, kept)
    if content is None:
        raise DataMissing(
            f"{source.name} is not in SONODE_DATA_DIR ({folder or 'not set'}), not in the "
            f"cache ({kept.parent}), and not fetched: {outcome}. To have it, put the original "
            f"(sha256 {source.sha256}) into a folder and set SONODE_DATA_DIR to it; it is "
            f"kept at {source.urls[0]}"
        )
    return content, outcome


@cache
def warn_once(text: str) -> None:
    """Print a notice to stderr, the same one only once per process."""
    print(text, file=sys.stderr)


def _checked(path, source):
    """The content of a file in the user's folder if it is the pinned one, else WrongFile."""
    try:
        content, found = path.read_bytes(), pooch.file_hash(path)
    except OSError as error:
        raise WrongFile(f"{path} cannot be read ({error.strerror}). {ADVICE}") from None
    if found != source.sha256:
        raise WrongFile(
            f"{path} is not the original {source.name}: it has {len(content):,} bytes, the "
            f"original {source.size:,}.\n  sha256 expected {source.sha256}\n"
            f"  sha256 found    {found}\n{ADVICE}"
        )
    return content


@cache
def _fetch(source, kept):
    """(content, where from), or (None, why not); remembered for the life of the process."""
    pooch.get_logger().setLevel("WARNING")
    download, reasons = pooch.HTTPDownloader(timeout=(CONNECT, READ)), []
    for url in source.urls:
        host = urlsplit(url).hostname
        if why := _unreachable(url):
            reasons.append(why)
            continue
        warn_once(f"fetching {source.name} ({source.size / 1e6:.1f} MB) from {host}")
        try:  # pooch writes to a temporary file and moves it once its hash is right
            pooch.retrieve(url, source.sha256, kept.name, kept.parent, downloader=download)
            return kept.read_bytes(), f"download from {host}"
        except OSError as error:  # all of requests' exceptions are, too
            reasons.append(f"{host}: {type(error).__name__}: {str(error)[:120]}")
        except ValueError as error:  # pooch's word for another hash; it names both
            warn_once(f"{url}: {error}")
            reasons.append(f"{host} sent a wrong file")
    return None, "; ".join(dict.fromkeys(reasons))


@cache
def _unreachable(url):
    """Why the server, or the proxy before it, takes no connection within CONNECT seconds."""
    proxy = requests.utils.select_proxy(url, requests.utils.get_environ_proxies(url))
    scheme = urlsplit(url).scheme.upper()
    through = f", the proxy that {scheme}_PROXY or ALL_PROXY names" if proxy else ""
    try:
        at = urlsplit(prepend_scheme_if_needed(proxy, "http") if proxy else url)
        address, answered = (at.hostname, at.port or (80 if at.scheme == "http" else 443)), []
    except ValueError as error:  # requests' own exceptions among them
        return f"{proxy}{through}, is not an address ({error}); mend it or unset it"

    def connect():
        with suppress(OSError):
            answered.append(socket.create_connection(address, CONNECT).close())

    asking = threading.Thread(target=connect, daemon=True)  # a name's look-up has no time-out
    asking.start()
    asking.join(CONNECT)
    return "" if answered else f"cannot connect to {address[0]}{through}"
