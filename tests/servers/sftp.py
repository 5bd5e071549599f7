"""SFTP, as OpenSSH serves it, with keys that are made for one run of the tests."""

from __future__ import annotations

import getpass
import os
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from servers.started import program

INSTALL = "apt-get install openssh-server"
CONFIG = """
HostKey {folder}/host
AuthorizedKeysFile {folder}/.ssh/id_ed25519.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PidFile none
Subsystem sftp internal-sftp
ForceCommand internal-sftp
"""


@dataclass
class SftpServer:
    """A running server, which lets this user in.

    Attributes:
        address: `user@host:port`, as it stands in a URL.
        home: A home folder with the user's key in it.
        running: The process of each connection.
    """

    address: str
    home: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def hang_up(self) -> None:
        """End every connection at once, as a restart of the server does."""
        while self.running:
            self.running.pop().kill()


@pytest.fixture(scope="session")
def sftp_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SftpServer]:
    """Run an sshd of our own, one for each connection as inetd does, so that no port is raced for."""
    pytest.importorskip("paramiko")
    sshd = program("sshd", INSTALL)
    folder = tmp_path_factory.mktemp("sftp")
    _make_keys(folder)
    (folder / "config").write_text(CONFIG.format(folder=folder))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where root's sshd locks its helper in

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            command = [sshd, "-i", "-f", f"{folder}/config", "-E", f"{folder}/log"]
            with subprocess.Popen(command, stdin=self.request, stdout=self.request) as process:
                served.running.append(process)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection) as server:
        port = server.server_address[1]
        served = SftpServer(f"{getpass.getuser()}@127.0.0.1:{port}", folder)
        (folder / ".ssh" / "known_hosts").write_text(
            f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}"
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield served
        server.shutdown()
        thread.join()
        served.hang_up()


def _make_keys(folder: Path) -> None:
    (folder / ".ssh").mkdir()
    for key in ("host", ".ssh/id_ed25519"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)


@pytest.fixture
def sftp_folder(sftp_server: SftpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a new folder, which can be reached with the key of the home folder."""
    monkeypatch.setenv("HOME", str(sftp_server.home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / "sftp").mkdir()
    return f"sftp://{sftp_server.address}{tmp_path}/sftp"
