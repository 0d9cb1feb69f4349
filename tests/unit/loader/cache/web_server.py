"""A web server on this machine, of the files of a directory, that fails as it is told to."""

import contextlib
import functools
import http.server
import threading


class Handler(http.server.SimpleHTTPRequestHandler):
    """Handler of the attributes that `serving` describes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.threads.add(self.client_address)
        failure = self.server.failing.get(self.path)
        if self.path.startswith("/moved"):
            self.answer(302, self.path.removeprefix("/moved") or "/moved")
        elif failure is not None:
            self.answer(
                failure if isinstance(failure, int) else 200,
                self.path,
                missing=100 * (failure == "cut short"),
            )
        elif self.server.hold is not None:
            self.server.hold.wait(30)
        else:
            super().do_GET()
            self.close_connection |= self.server.hangs_up  # without a word

    def answer(self, status, location, missing=0):
        """Answer with an empty page, whose length is given as *missing*."""
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(missing))
        if status == 302:
            self.send_header("Location", location)
        self.end_headers()

    def end_headers(self):
        if self.server.closes or self.path in self.server.failing:
            self.send_header("Connection", "close")
        super().end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(directory, port=0, failing=()):
    """Serve the files of *directory*, and redirections from /moved/PATH to /PATH.

    Attributes of the server: ``failing`` maps paths to a status, "empty" or "cut short"; no answer
    comes before the event ``hold`` is set, if there is one; with ``closes`` or ``hangs_up``, which
    does not say so, each connection has one request; ``threads`` has the addresses of the clients.
    """
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", port), functools.partial(Handler, directory=str(directory))
    )
    server.failing = dict(failing)
    server.threads, server.hold, server.closes, server.hangs_up = set(), None, False, False
    server.address, server.directory = f"http://127.0.0.1:{server.server_port}", directory
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
