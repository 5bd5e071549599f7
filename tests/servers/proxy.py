"""A faulty proxy: HTTP passes through it, except where a test has it fail.

One request goes over each connection, which the proxy asks of both sides; the rest it passes on byte by byte,
so that it knows nothing of bodies. Bytes are counted with their heads.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from asyncio import sleep
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

CHUNK = 16 << 10
CODES = {403: "AccessDenied", 404: "NoSuchKey", 500: "InternalError", 503: "SlowDown"}


@dataclass
class Request:
    """One request that came.

    Attributes:
        method: `GET` and so on.
        path: The path, decoded, with the query as it came.
        sent: How many bytes were passed on to the server.
        received: How many of its answer were passed back.
    """

    method: str
    path: str
    sent: int = 0
    received: int = 0


@dataclass
class Fault:
    """What happens to requests.

    Attributes:
        action: `reset` or `close` the connection, `stall` until it is released, or answer this status.
        at: Only the request of this number fails, counted from 1 among those that `when` is true for.
        when: Which requests may fail.
        sent: It happens once so many bytes of the request were passed on.
        received: It happens once so many bytes of the answer were passed back, rather.
        rate: Those requests pass with so many bytes a second each way, in place of an action.
        struck: Set once it happened.
        released: Lets what is stalled go on.
    """

    action: str | int = "reset"
    at: int | None = None
    when: Callable[[Request], bool] = lambda _: True
    sent: int = 0
    received: int | None = None
    rate: float | None = None
    struck: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    counted: int = 0

    def takes(self, request: Request) -> bool:
        """Count a request, and tell whether this happens to it."""
        if not self.when(request):
            return False
        self.counted += 1
        return self.at in {None, self.counted}

    def left(self, request: Request, way: str) -> int:
        """Return how many bytes may still go one way before it happens."""
        limit = self.received if way == "received" else self.sent if self.received is None else None
        return CHUNK if limit is None or self.rate else limit - int(getattr(request, way))


class Proxy:
    """The proxy before one server, in a thread of its own; see `proxied`.

    Attributes:
        url: Where it listens.
        requests: What came, in order.
    """

    def __init__(self, target: str) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self._target = urlsplit(target)
        self._faults: list[Fault] = []
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="faulty-proxy")

    def fail(self, fault: Fault) -> Fault:
        """Have *fault* happen from now on; what was told first goes first."""
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Let everything pass from now on, and what is stalled go on."""
        for fault in self._faults:
            fault.released.set()
        self._faults = []

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        self._listening.wait()

    def stop(self) -> None:
        """End every connection."""
        self.heal()
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._begin, "127.0.0.1", 0)
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        self._listening.set()
        await self._done.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._accept(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before it has begun closes nothing itself.
        task.add_done_callback(lambda _: writer.close())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)
        finally:
            await _close(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        method, target, _ = first.decode("latin-1").split(" ")
        request = Request(method, unquote(target))
        self.requests.append(request)
        fault = next((fault for fault in self._faults if fault.takes(request)), None)
        lines = [line for line in lines if not line.lower().startswith(b"connection:")]
        head = b"\r\n".join([first, *lines, b"Connection: close", b"", b""])
        up_reader, up_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
        ways = [
            asyncio.create_task(_pass(request, fault, "sent", head, reader, up_writer)),
            asyncio.create_task(_pass(request, fault, "received", b"", up_reader, writer)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if any(connection.result() for connection in done) and fault:
                up_writer.transport.abort()
                await _strike(fault, request, reader, writer)
        finally:
            up_writer.close()  # before anything that is awaited, where a cancel may come
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await _close(up_writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def _pass(
    request: Request,
    fault: Fault | None,
    way: str,
    data: bytes,
    source: asyncio.StreamReader,
    sink: asyncio.StreamWriter,
) -> bool:
    """Pass bytes on, *data* and then what *source* has; tell whether the fault is due."""
    while data or (data := await source.read(CHUNK)):
        if data.startswith(b"HTTP/1.1 100 "):  # "go on and send", which is no answer yet
            interim, end, data = data.partition(b"\r\n\r\n")
            sink.write(interim + end)
            continue
        left = fault.left(request, way) if fault else CHUNK
        piece, data = data[:left], data[left:]
        setattr(request, way, getattr(request, way) + len(piece))
        sink.write(piece)
        await sink.drain()
        if fault and fault.rate:
            await sleep(len(piece) / fault.rate)
        elif data:
            if fault.action != "stall":
                return True
            fault.struck.set()
            await asyncio.to_thread(fault.released.wait)
            fault = None
    return False


async def _strike(
    fault: Fault, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer, or end the connection."""
    if isinstance(fault.action, int):
        code = CODES[fault.action]
        body = f"<Error><Code>{code}</Code><Message>as the test asked</Message></Error>".encode()
        head = f"HTTP/1.1 {fault.action} {code}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"\r\n" + (b"" if request.method == "HEAD" else body))
    elif fault.action == "reset":
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()
    fault.struck.set()
    if isinstance(fault.action, int):
        while await reader.read(CHUNK):  # else the answer is lost under what was not read
            pass


@contextmanager
def proxied(target: str) -> Iterator[Proxy]:
    """Run a proxy before the server at the URL *target*."""
    proxy = Proxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
