"""What the installation says about torch before it fetches it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import install_torch  # noqa: E402


def package(name, version="1.0"):
    return {"metadata": {"name": name, "version": version}, "download_info": {"url": name}}


CPU = [package("torch", "2.13.0+cpu")]
CUDA = [package("torch", "2.13.0"), package("nvidia-cublas"), package("triton")]
SIZES = {"torch": 526_600_000, "nvidia-cublas": 423_100_000, "triton": 197_700_000}


def test_the_cuda_build_is_announced_with_the_size_of_all_of_it_and_a_way_round():
    line, *advice = install_torch.said(CUDA, SIZES.get).splitlines()
    advice = " ".join(advice)
    assert line == "Fetching torch 2.13.0 and 2 packages that it needs: 1,147 MB."
    assert "CUDA build" in advice and "make book TORCH_INDEX=<address>" in advice


def test_the_cpu_build_is_announced_without_advice():
    assert install_torch.said(CPU, SIZES.get) == "Fetching torch 2.13.0+cpu: 527 MB.\n"


@pytest.mark.parametrize(
    "sizes, words", [({}, ": of unknown size"), ({"torch": 10**9}, ": at least 1,000 MB")]
)
def test_a_size_that_no_server_gives_is_not_made_up(sizes, words):
    assert words in install_torch.said(CUDA, sizes.get)


def test_nothing_is_said_where_nothing_is_fetched():
    assert install_torch.said([]) == ""


def test_the_size_of_a_file_of_this_machine_is_that_of_the_file(tmp_path):
    (tmp_path / "a wheel+cpu.whl").write_bytes(b"12345")
    assert install_torch.bytes_of((tmp_path / "a wheel+cpu.whl").as_uri()) == 5
    assert install_torch.bytes_of("http://127.0.0.1:9/none.whl") is None


@pytest.mark.parametrize("index", ["", "http://127.0.0.1:9/cpu"])
def test_only_torch_is_taken_from_another_index(index, monkeypatch, capsys):
    ran = []

    def pip(command, **options):
        ran.append([str(word) for word in command])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(install_torch.subprocess, "run", pip)
    assert install_torch.main(*filter(None, [index])) == 0
    plan, install = ran
    assert "--dry-run" in plan and "--dry-run" not in install
    for command in ran:
        assert command[-1].startswith("torch==")
        assert ("--index-url" in command) == bool(index) == (command[-2] == index)


def test_make_hands_the_index_on():
    command = ["make", "-n", "-B", "TORCH_INDEX=https://cpu", ".venv/installed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "tools/install_torch.py https://cpu" in done.stdout, done.stderr
    assert done.stdout.count("https://cpu") == 1
