"""An HTTP server on loopback that can be told to fail."""

import contextlib
import gzip
import http.server
import threading
import time


class Server:
    """Serves ``body`` and records the Range header of every request."""

    def __init__(self, body):
        self.body = body
        self.ranges = []
        self.die_after = []  # Per request: bytes sent before the connection breaks, or None.
        self.supports_ranges = True
        self.status = 200
        self.pause = 0.0  # Seconds between pieces of 1,000 bytes.
        self.address = ""

    def url(self, name="file.bin"):
        return f"{self.address}/{name}"


@contextlib.contextmanager
def run_server(body):
    """Run a server that serves ``body`` until the context ends."""
    server = Server(body)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requested = self.headers.get("Range")
            server.ranges.append(requested)
            if server.status != 200:
                self.send_error(server.status)
                return
            first = int(requested.removeprefix("bytes=").rstrip("-")) if requested else 0
            if not server.supports_ranges:
                first, requested = 0, None
            if requested and first >= len(server.body):
                self.send_error(416)
                return
            rest = server.body[first:]
            self.send_response(206 if requested else 200)
            if "gzip" in (self.headers.get("Accept-Encoding") or ""):  # As GitHub's raw files do.
                rest = gzip.compress(rest)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            stop = server.die_after.pop(0) if server.die_after else None
            sent = rest if stop is None else rest[:stop]
            for i in range(0, len(sent), 1000):
                self.wfile.write(sent[i : i + 1000])
                time.sleep(server.pause)

        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.address = f"http://127.0.0.1:{httpd.server_port}"
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
