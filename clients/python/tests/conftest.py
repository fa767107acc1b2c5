"""What the tests share: a server, and how much of the long tests runs.

The programs polyscand and polyscan are those that $POLYSCAND_PROGRAM and $POLYSCAN_PROGRAM name, or built from the
checkout. POLYSCAN_LONG=1 runs the tests at full length, which takes about an hour; POLYSCAN_SEED is the seed of random
ones.
"""

import os
import pathlib
import random
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent / "src"))

import polyscan  # noqa: E402

LONG = os.environ.get("POLYSCAN_LONG") == "1"
CHIP = [(398, 270), (546, 270), (546, 418), (398, 418)]


def amount(short, full):
    """How often a test does something: short in CI, full where it was asked for."""
    return full if LONG else short


@pytest.fixture(scope="session", autouse=True)
def programs(tmp_path_factory):
    for name, package in (("polyscand", "./server/cmd/polyscand"), ("polyscan", "./clients/polyscan")):
        variable = name.upper() + "_PROGRAM"
        if variable not in os.environ:
            out = tmp_path_factory.mktemp("bin") / name
            subprocess.run(["go", "build", "-o", out, package], cwd=ROOT, check=True)
            os.environ[variable] = str(out)


@pytest.fixture(scope="session")
def client(programs):
    with polyscan.connect(server_args=["--device", "cpu"]) as c:
        yield c


@pytest.fixture(scope="session")
def tcp(programs):
    """The address of a server on TCP that has no shared memory."""
    with Daemon() as d:
        yield d.address


class Daemon:
    """polyscand on a port, which can be killed and started again."""

    def __init__(self, *args):
        with socket.socket() as s:
            s.bind(("localhost", 0))
            self.port = s.getsockname()[1]
        self.address = f"localhost:{self.port}"
        self.args = [os.environ["POLYSCAND_PROGRAM"], "--listen", self.address, "--device", "cpu", *args]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1000):
            try:
                socket.create_connection(("localhost", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, "polyscand ended"
                time.sleep(0.01)
        raise TimeoutError("polyscand did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


@pytest.fixture
def rng():
    """Random numbers whose seed a failing test prints."""
    seed = int(os.environ.get("POLYSCAN_SEED") or random.randrange(1 << 32))
    print(f"POLYSCAN_SEED={seed}")
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def board():
    import PIL.Image

    return np.asarray(PIL.Image.open(ROOT / "testdata" / "board.png").convert("RGB"))
