"""The faulty proxy before a server that echoes, and the start of servers."""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from servers.proxy import Fault, Proxy, Request, proxied
from servers.started import program, started
from waiting import until

BODY = b"0123456789" * 20_000
PLACES = [{"sent": 0}, {"sent": 100_000}, {"received": 0}, {"received": 100_000}]


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append(body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            self.close_connection = True


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        server.got = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(server: ThreadingHTTPServer) -> Iterator[Proxy]:
    with proxied(f"http://127.0.0.1:{server.server_address[1]}") as proxy:
        yield proxy


def ask(proxy: Proxy, path: str = "/a%20b?c=%2F", method: str = "PUT") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=20)
    try:
        connection.request(method, path, BODY)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_requests_pass_and_are_recorded(proxy: Proxy) -> None:
    assert ask(proxy) == ask(proxy) == (200, BODY)
    assert [(request.method, request.path) for request in proxy.requests] == [("PUT", "/a b?c=/")] * 2
    for request in proxy.requests:
        assert 0 < request.sent - len(BODY) < 500
        assert 0 < request.received - len(BODY) < 500


def test_only_the_nth_matching_request_fails(proxy: Proxy) -> None:
    fault = proxy.fail(Fault(503, at=2, when=lambda request: request.path == "/x"))
    assert [ask(proxy, path)[0] for path in ("/x", "/y", "/x", "/x")] == [200, 200, 503, 200]
    assert fault.struck.is_set()


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_an_answer_of_the_proxy_does_not_reach_the_server(
    proxy: Proxy, server: ThreadingHTTPServer, status: int
) -> None:
    proxy.fail(Fault(status))
    assert ask(proxy)[0] == status
    assert server.got == []
    assert proxy.requests[0].sent == 0


@pytest.mark.parametrize("action", ["reset", "close"])
@pytest.mark.parametrize("place", PLACES)
def test_a_cut_request_has_no_effect_and_a_lost_answer_has(
    proxy: Proxy, server: ThreadingHTTPServer, action: str, place: dict[str, int]
) -> None:
    proxy.fail(Fault(action, **place))
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        ask(proxy)
    assert server.got == [BODY] if "received" in place else BODY not in server.got
    assert getattr(proxy.requests[0], *place) == next(iter(place.values()))


def test_a_server_that_waits_for_the_body_has_not_answered_yet(
    proxy: Proxy, server: ThreadingHTTPServer
) -> None:
    proxy.fail(Fault("close", received=0))
    connection = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=20)
    connection.request("PUT", "/", BODY, {"Expect": "100-continue"})
    with pytest.raises(http.client.HTTPException):
        connection.getresponse()
    connection.close()
    assert server.got == [BODY]


@pytest.mark.parametrize("place", PLACES)
def test_a_stalled_request_continues_after_its_release(proxy: Proxy, place: dict[str, int]) -> None:
    fault = proxy.fail(Fault("stall", **place))
    got: list[tuple[int, bytes]] = []
    asking = threading.Thread(target=lambda: got.append(ask(proxy)))
    asking.start()
    assert fault.struck.wait(60)
    assert got == []
    assert getattr(proxy.requests[0], *place) == next(iter(place.values()))
    proxy.heal()
    asking.join()
    assert got == [(200, BODY)]


def test_a_slow_request_arrives_complete(proxy: Proxy) -> None:
    slept: list[float] = []
    proxy.fail(Fault(rate=10_000_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("servers.proxy.sleep", lambda s: _note(slept, s))
        assert ask(proxy) == (200, BODY)
        request = proxy.requests[0]
        # Whoever asked has the last byte before the proxy sleeps for it.
        until(lambda: sum(slept) == pytest.approx((request.sent + request.received) / 10_000_000))


async def _note(slept: list[float], seconds: float) -> None:
    slept.append(seconds)


def test_the_first_matching_fault_applies(proxy: Proxy) -> None:
    proxy.fail(Fault(404, when=lambda request: request.method == "GET"))
    proxy.fail(Fault(500))
    assert ask(proxy, method="GET")[0] == 404
    assert ask(proxy)[0] == 500
    proxy.heal()
    assert ask(proxy)[0] == 200


def test_a_fault_takes_only_the_nth_matching_request() -> None:
    fault = Fault(at=2, when=lambda request: request.method == "GET")
    assert [fault.takes(Request(method, "/")) for method in ("GET", "PUT", "GET")] == [False, False, True]


@pytest.mark.parametrize(
    ("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)], ids=["CI", "elsewhere"]
)
def test_a_missing_server_fails_in_ci_and_skips_elsewhere(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-server is not installed: ask for it"):
        program("no-such-server", "ask for it")


def test_a_server_that_ends_too_early_fails_with_its_output() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="the port is taken"),
        started([sys.executable, "-c", "print('the port is taken')"], "ready"),
    ):
        pass
