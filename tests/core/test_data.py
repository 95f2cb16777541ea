"""Data: the pinned file or a clear word, from the folder, the cache or the network.

The network is a server on loopback that sends good, truncated, wrong, HTML and no answers.
"""

import gzip
import hashlib
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from sonode_utils.data import fetch, measured, standins
from sonode_utils.data.fetch import DataMissing, Source, WrongFile

GOOD = b'"V1","V2",\n' + b"0.25,-1e-3,\n" * 500 + b"\n"
HTML = b"<!DOCTYPE html><html><body>Please log in to this network</body></html>"
SHA = hashlib.sha256(GOOD).hexdigest()
REAL = Path(os.environ.get("SONODE_DATA_DIR", "none"))


class Answers(BaseHTTPRequestHandler):
    """/<kind>/<anything>: answers that way; `asked` counts."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        kind = self.path.split("/")[1]
        self.server.asked.append(kind)
        getattr(self, kind)()

    def send(self, body, code=200, length=None, **headers):
        self.send_response(code)
        self.send_header("Content-Length", str(length or len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def good(self):
        self.send(GOOD)

    def short(self):  # a proxy that was cut off, and counted what it had
        self.send(GOOD[:1000])

    def broken(self):  # the connection is lost half way
        self.send(GOOD[:1000], length=len(GOOD))
        self.close_connection = True

    def wrong(self):
        self.send(GOOD.replace(b"0.25", b"0.26", 1))

    def long(self):
        self.send(GOOD * 10)

    def html(self):
        self.send(HTML)

    def error(self):
        self.send(b"later", code=503)

    def hang(self):
        self.server.released.wait(30)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that hung up is no news


@pytest.fixture
def server():
    with Server(("127.0.0.1", 0), Answers) as server:
        server.asked, server.released = [], threading.Event()
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.released.set()
        server.shutdown()


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    """A fresh cache, no folder of data, no memory, nothing reachable but loopback."""
    for name in ("SONODE_DATA_DIR", "SONODE_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(fetch, "READ", 0.3)
    for remembered in (fetch.warn_once, fetch._fetch, fetch._unreachable):
        remembered.cache_clear()
    monkeypatch.setattr(socket, "create_connection", loopback(socket.create_connection))


def loopback(connect):
    def only(address, *rest, **options):
        if address[0] not in ("127.0.0.1", "localhost"):
            raise OSError(f"no network in tests: {address}")
        return connect(address, *rest, **options)

    return only


@pytest.fixture
def source(server):
    """The pinned file, kept at addresses of the given kinds."""

    def at(*kinds):
        base = f"http://127.0.0.1:{server.server_port}"
        return Source("tiny.csv", SHA, len(GOOD), tuple(f"{base}/{k}/tiny.csv" for k in kinds))

    return at


@pytest.fixture
def stored(tmp_path):
    """Everything that lies in the cache, by path."""

    def files():
        return sorted(p.name for p in (tmp_path / "cache").rglob("*") if p.is_file())

    return files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of the user's own, named by SONODE_DATA_DIR."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.setenv("SONODE_DATA_DIR", str(folder))
    return folder


def cached(tmp_path, content):
    path = tmp_path / "cache" / "sonode" / "tiny.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


# --- the three places -------------------------------------------------------------------


def test_the_users_folder_comes_before_cache_and_network(folder, tmp_path, source, server):
    (folder / "tiny.csv").write_bytes(GOOD)
    cached(tmp_path, GOOD)
    assert fetch.find(source("good")) == (GOOD, "SONODE_DATA_DIR")
    assert server.asked == []


def test_the_cache_comes_before_the_network(tmp_path, source, server):
    cached(tmp_path, GOOD)
    assert fetch.find(source("good")) == (GOOD, "cache")
    assert server.asked == []


def test_a_download_is_kept_and_not_asked_for_again(source, server, stored):
    assert fetch.find(source("good"))[0] == GOOD
    fetch._fetch.cache_clear()
    assert fetch.find(source("good"))[1] == "cache"
    assert server.asked == ["good"]
    assert stored() == ["tiny.csv"]


def test_a_file_in_the_subfolder_mnist_is_found(folder, source):
    (folder / "mnist").mkdir()
    (folder / "mnist" / "tiny.csv").write_bytes(GOOD)
    assert fetch.find(source("html"))[1] == "SONODE_DATA_DIR"


# --- wrong files ------------------------------------------------------------------------

WRONG = {
    "cut short": GOOD[:-1],
    "empty": b"",
    "HTML": HTML,
    "same length": GOOD.replace(b"0.25", b"0.26", 1),
    "too long": GOOD + b"1",
}


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_a_wrong_file_in_the_users_folder_is_an_error_with_both_hashes(folder, source, content):
    path = folder / "tiny.csv"
    path.write_bytes(content)
    with pytest.raises(WrongFile) as error:
        fetch.find(source("good"))
    found, size = hashlib.sha256(content).hexdigest(), f"{len(content):,} bytes"
    words = (str(path), SHA, found, size, "unset SONODE_DATA_DIR")
    assert all(part in str(error.value) for part in words)
    assert path.read_bytes() == content


def test_an_unreadable_file_in_the_users_folder_is_named(folder, source):
    (folder / "tiny.csv").mkdir()
    with pytest.raises(WrongFile, match=r"tiny\.csv cannot be read"):
        fetch.find(source("good"))


@pytest.mark.parametrize("content", WRONG.values(), ids=WRONG)
def test_a_wrong_file_in_the_cache_is_fetched_again(tmp_path, source, stored, content):
    path = cached(tmp_path, content)
    assert fetch.find(source("good"))[0] == path.read_bytes() == GOOD
    assert stored() == ["tiny.csv"]


@pytest.mark.parametrize("kind", ["short", "wrong", "long", "html"])
def test_a_wrong_download_is_named_and_never_reaches_the_cache(
    source, server, stored, capsys, kind
):
    with pytest.raises(DataMissing, match="sent a wrong file"):
        fetch.find(source(kind))
    notice = capsys.readouterr().err
    assert SHA in notice and f"/{kind}/tiny.csv" in notice and "but got" in notice
    assert server.asked == [kind] and stored() == []


def test_a_connection_that_breaks_leaves_nothing(source, stored):
    with pytest.raises(DataMissing, match=r"127\.0\.0\.1"):
        fetch.find(source("broken"))
    assert stored() == []


def test_a_good_mirror_makes_up_for_a_bad_one(source, server):
    assert fetch.find(source("html", "error", "good"))[0] == GOOD
    assert server.asked == ["html", "error", "good"]


def test_every_address_is_secure_and_every_file_pinned():
    kept = measured.FILES.values()
    assert all(url.startswith("https://") for source in kept for url in source.urls)
    assert all(len(source.sha256) == 64 and source.urls for source in kept)


# --- no network -------------------------------------------------------------------------


def test_a_server_that_never_answers_does_not_hold_us_up(source, stored):
    begin = time.monotonic()
    with pytest.raises(DataMissing):
        fetch.find(source("hang"))
    assert time.monotonic() - begin < 3 and stored() == []


def test_a_network_that_swallows_everything_costs_one_short_wait_per_file(monkeypatch):
    asked, over = [], threading.Event()

    def swallow(address, _):
        asked.append(address)
        over.wait(20)
        raise OSError

    monkeypatch.setattr(fetch, "CONNECT", 0.2)
    monkeypatch.setattr(socket, "create_connection", swallow)
    begin = time.monotonic()
    assert measured.silverbox().data == measured.f16().data == "simulated"
    measured.silverbox()
    assert time.monotonic() - begin < 5
    assert asked == [("raw.githubusercontent.com", 443)] * 2
    over.set()


def test_a_failed_download_is_not_tried_again_in_the_same_process(source, server):
    for _ in range(3):
        with pytest.raises(DataMissing):
            fetch.find(source("error"))
    assert server.asked == ["error"]


def test_offline_skips_the_network_at_once(source, server, monkeypatch):
    monkeypatch.setenv("SONODE_OFFLINE", "1")
    with pytest.raises(DataMissing, match="SONODE_OFFLINE is set"):
        fetch.find(source("good"))
    assert server.asked == []
    monkeypatch.setenv("SONODE_OFFLINE", "0")
    assert fetch.find(source("good"))[0] == GOOD


def test_missing_data_says_where_it_was_looked_for_and_what_to_do(folder, source, tmp_path):
    with pytest.raises(DataMissing) as error:
        fetch.find(source("error"))
    parts = (folder, tmp_path / "cache", "503", SHA, "set SONODE_DATA_DIR", "/error/tiny.csv")
    assert all(str(part) in str(error.value) for part in parts)


def test_a_folder_that_does_not_exist_is_mentioned(monkeypatch, source, capsys):
    monkeypatch.setenv("SONODE_DATA_DIR", "/nowhere/at/all")
    assert fetch.find(source("good"))[0] == GOOD
    assert "SONODE_DATA_DIR=/nowhere/at/all is not a folder" in capsys.readouterr().err


def test_a_folder_that_cannot_be_read_is_an_error_that_names_the_setting(
    folder, source, monkeypatch
):
    def forbidden(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(fetch.os, "listdir", forbidden)  # root may read every folder
    with pytest.raises(WrongFile, match=f"SONODE_DATA_DIR={folder} cannot be read .*unset"):
        fetch.find(source("good"))


@pytest.mark.parametrize(
    "proxy, words",
    [
        ("http://127.0.0.1:notaport", "HTTP_PROXY or ALL_PROXY names, is not an address"),
        ("127.0.0.1:9", "cannot connect to 127.0.0.1, the proxy that HTTP_PROXY"),
        ("http://[bad", "is not an address"),
    ],
)
def test_a_bad_proxy_is_named_with_its_setting(proxy, words, source, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setattr(fetch.requests.utils, "should_bypass_proxies", lambda *_, **__: False)
    with pytest.raises(DataMissing) as error:
        fetch.find(source("good"))
    assert words in str(error.value) and proxy[:9] in str(error.value)


def test_a_cache_that_cannot_be_written_is_named(tmp_path, source):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(DataMissing, match=r"not fetched: .*Error: .*cache"):
        fetch.find(source("good"))


# --- the data sets ----------------------------------------------------------------------


def test_without_the_files_the_stand_ins_are_labelled_and_announced_once(capsys):
    record, twin = measured.silverbox(), measured.silverbox()
    assert record.data == twin.data == "simulated"
    assert "stand-in" in record.provenance
    notice = capsys.readouterr().err
    assert notice.count("SIMULATED") == 1 and "cannot connect" in notice
    assert measured.f16().data == "simulated"


def test_mnist_has_no_stand_in():
    with pytest.raises(DataMissing, match="train-images"):
        measured.mnist()


def test_a_wrong_silverbox_in_the_users_folder_is_never_replaced_by_the_stand_in(folder):
    (folder / "SNLS80mV.csv").write_bytes(GOOD)
    with pytest.raises(WrongFile, match="is not the original SNLS80mV"):
        measured.silverbox()


def test_signals_cannot_be_changed_by_a_notebook():
    for array in (measured.silverbox().u, measured.f16().force):
        with pytest.raises(ValueError):
            array[0] = 1


def pretend(folder, monkeypatch, content):
    """Pin `content` as Silverbox."""
    (folder / "SNLS80mV.csv").write_bytes(content)
    known = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    pinned = measured.FILES["silverbox"]._replace(**known)
    monkeypatch.setitem(measured.FILES, "silverbox", pinned)


def test_a_full_record_is_read_in_under_a_second(folder, monkeypatch):
    pretend(folder, monkeypatch, b'"V1","V2",\n' + b"0.0062156,-0.006052,\n" * 131_072)
    begin = time.monotonic()
    record = measured.silverbox()
    assert time.monotonic() - begin < 1
    assert record.data == "real" and "SONODE_DATA_DIR" in record.provenance
    assert record.u[-1] == 0.0062156 and record.y[0] == -0.006052
    assert record.u.dtype == np.float64 and record.rate == 610.35
    assert not record.u.flags.writeable


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=60, deadline=None)
@given(npst.arrays(float, st.tuples(st.integers(1, 20), st.just(3)), elements=finite))
def test_csv_columns_come_back_as_they_were_written(table):
    """Quoted header, trailing commas, a last column filled in the first row only."""
    rows = [",".join(map(repr, row.tolist())) for row in table]
    lines = [
        '"A","B","C","Fs",',
        *(r + (",400," if k == 0 else ",,") for k, r in enumerate(rows)),
    ]
    content = ("\n".join(lines) + "\n\n").encode()
    np.testing.assert_array_equal(measured.read_csv(content, ("A", "B", "C")), table.T)


def test_another_header_is_refused():
    with pytest.raises(WrongFile, match="V1, V2"):
        measured.read_csv(b"V2,V1\n1,2\n", ("V1", "V2"))


@settings(max_examples=60, deadline=None)
@given(npst.arrays(np.uint8, npst.array_shapes(max_dims=3, max_side=6)), st.integers(1, 8))
def test_idx_arrays_come_back_and_a_cut_file_is_refused(array, cut):
    sizes = np.array(array.shape, ">u4").tobytes()
    content = bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes()
    np.testing.assert_array_equal(measured.read_idx(content), array)
    with pytest.raises(WrongFile):
        measured.read_idx(content[:-cut])


def test_mnist_reads_gzipped_idx_files(folder, monkeypatch):
    def pin(part, shape):
        content = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        content = gzip.compress(content + bytes(int(np.prod(shape))), 1)
        source = measured.FILES[part]
        (folder / source.name).write_bytes(content)
        return source._replace(sha256=hashlib.sha256(content).hexdigest())

    shapes = {"train_images": (60000, 28, 28), "train_labels": (60000,)}
    shapes |= {"test_images": (10000, 28, 28), "test_labels": (10000,)}
    for part, shape in shapes.items():
        monkeypatch.setitem(measured.FILES, part, pin(part, shape))
    digits = measured.mnist()
    assert {part: getattr(digits, part).shape for part in shapes} == shapes


@pytest.mark.skipif(not (REAL / "SNLS80mV.csv").exists(), reason="needs the real files")
def test_the_real_records_are_the_pinned_ones(monkeypatch):
    monkeypatch.setenv("SONODE_DATA_DIR", str(REAL))
    silverbox, f16 = measured.silverbox(), measured.f16()
    assert silverbox.data == f16.data == "real"
    assert silverbox.u[0] == 0.0057756 and silverbox.y[-1] == -0.0072247
    assert f16.force[0] == 0.95714 and f16.acceleration3[-1] == 0.014724
    assert silverbox.y.shape == (131_072,) and f16.voltage.shape == (73_728,)


# --- the stand-ins ----------------------------------------------------------------------


def rms(signal):
    return np.sqrt(np.mean((signal - signal.mean()) ** 2))


def test_the_stand_ins_are_the_same_every_time():
    first = standins.silverbox_signals()[1], standins.f16_signals()["force"]
    standins.silverbox_signals.cache_clear()
    standins.f16_signals.cache_clear()
    again = standins.silverbox_signals()[1], standins.f16_signals()["force"]
    assert first[0] is not again[0]
    np.testing.assert_array_equal(first[0], again[0])
    np.testing.assert_array_equal(first[1], again[1])


def test_the_stand_in_silverbox_has_an_arrow_head_that_grows_as_measured():
    u, y = standins.silverbox_signals()
    starts = np.arange(2000, 40_000, 2000)
    level = 1e3 * np.array([rms(u[n - 1000 : n + 1000]) for n in starts])  # mV
    np.testing.assert_allclose(level, 0.4 + 0.935e-3 * starts, rtol=0.1)
    assert 0.2e-2 < rms(y[:1000]) < 0.3e-2 < 0.9e-2 < rms(y[4000:5000]) < 1.1e-2
    multisines = slice(40_586, 127_400)
    assert rms(u[multisines]) == pytest.approx(22.2e-3, rel=0.03)
    assert rms(y[multisines]) == pytest.approx(54e-3, rel=0.08)


def test_the_stand_in_silverbox_obeys_its_equation():
    """y'' by band-limited differentiation of one multisine's steady state."""
    u, y = standins.silverbox_signals()
    rows = slice(40_572 + 436, 40_572 + 436 + 8192)  # a whole period, transient over
    u, y = u[rows] - 6.2e-3, y[rows] - 0.8e-3
    s = 2j * np.pi * np.fft.rfftfreq(8192, 1 / standins.SILVERBOX_RATE)
    spectrum = np.fft.rfft(y)
    v, a = (np.fft.irfft(spectrum * s**k) for k in (1, 2))
    found = np.linalg.lstsq(np.stack([v, y, y**3, u], 1), a, rcond=None)[0]
    np.testing.assert_allclose(found, [-41.86, -1.8425e5, -7.317e5, 1.8642e5], rtol=0.05)


def test_the_stand_in_f16_has_the_measured_levels_lines_and_resonances():
    record = standins.f16_signals()
    measured = {"force": 12.36, "voltage": 0.02503, "acceleration1": 0.2437}
    measured |= {"acceleration2": 0.3870, "acceleration3": 0.3596}
    for name, level in measured.items():
        assert record[name].shape == (73_728,)
        assert rms(record[name]) == pytest.approx(level, rel=0.02)
    voltage, wing = (abs(np.fft.rfft(record[n][:8192])) for n in ("voltage", "acceleration2"))
    lines = np.flatnonzero(voltage > 1e-6 * voltage.max())
    assert len(lines) == 267 and lines[0] * 400 / 8192 == pytest.approx(2, abs=0.01)
    assert np.ptp(voltage[lines]) < 1e-9 * voltage.max()
    peak = 400 / 8192 * (wing / voltage.clip(voltage.max())).argmax()
    assert peak == pytest.approx(7.35, abs=0.05)


def test_the_stand_in_f16_is_periodic():
    wing = standins.f16_signals()["acceleration2"].reshape(9, 8192)
    np.testing.assert_array_equal(wing[0], wing[8])
