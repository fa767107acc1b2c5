"""A server of one's own: polyscand as a child process that ends with the client, and with this process."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import weakref
from typing import Any, Sequence

# The shell between this process and the server waits for the end of its standard input, which comes when the client is
# closed and when this process ends, however it ends. Then it stops the server and removes the folder of its sockets.
_WATCH = """
exec 3<&0
"$@" 3<&- </dev/null & server=$!
(read -r _ <&3; kill $server 2>/dev/null) & reader=$!
wait $server; status=$?
while kill -0 $server 2>/dev/null; do wait $server; status=$?; done
kill $reader 2>/dev/null
rm -rf "$0"
exit $status
"""


class ProgramNotFound(FileNotFoundError):
    """A program of polyscan is not here."""


class Server:
    """polyscand, listening at a unix socket in a folder of its own."""

    def __init__(self, program: str | os.PathLike[str] | None, args: Sequence[str]) -> None:
        self._program = find("polyscand", program)
        # Not in $TMPDIR, which may be too long for a socket's path.
        base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
        folder = tempfile.mkdtemp(prefix="polyscan-", dir=base if os.access(base, os.W_OK) else None)
        self.address = f"unix:{folder}/grpc"
        command = [self._program, "--listen", self.address, "--shm-socket", f"{folder}/memory"]
        command += ["--shutdown-timeout", "2s", *args]
        self._log = open(os.path.join(folder, "log"), "w+b", buffering=0)
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, folder, *command], stdin=subprocess.PIPE, stdout=self._log, stderr=self._log,
            start_new_session=True,
        )  # fmt: skip
        self._stop = weakref.finalize(self, _stop, self.process, folder, self._log, os.getpid())

    def failed(self) -> str | None:
        """Why it has ended; None while it runs."""
        if self.process.poll() is None:
            return None
        self._log.seek(0)
        words = self._log.read().decode(errors="replace").strip().splitlines()
        return f"{self._program} ended with status {self.process.returncode}: {' / '.join(words[-3:])}"

    def close(self) -> None:
        self._stop()


def _stop(process: subprocess.Popen[bytes], folder: str, log: Any, owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the process that started it
    assert process.stdin
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    log.close()
    shutil.rmtree(folder, ignore_errors=True)


def find(name: str, program: str | os.PathLike[str] | None) -> str:
    """The path of a program: as given, or as the environment says ($POLYSCAND_PROGRAM), or in PATH, or built in a
    checkout around this file."""
    variable = name.upper() + "_PROGRAM"
    named = program or os.environ.get(variable)
    if named:
        found = shutil.which(os.fspath(named))
        if not found:
            raise ProgramNotFound(f"{os.fspath(named)}: no such program")
        return found
    found = shutil.which(name)
    if found:
        return found
    for folder in pathlib.Path(__file__).resolve().parents[2:6]:
        built = folder / "build" / name
        if (folder / "go.mod").exists() and os.access(built, os.X_OK):
            return str(built)
    raise ProgramNotFound(f"{name} is not in PATH, and ${variable} is not set")
