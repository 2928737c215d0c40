"""A real HTTP server on loopback that can misbehave."""

import contextlib
import gzip
import http.server
import threading
import time


class Server:
    """Serves ``body``; remembers the Range header of every request."""

    def __init__(self, body):
        self.body = body
        self.ranges = []
        self.die_after = []  # One entry a request: bytes sent before the connection breaks, or None.
        self.ranges_work = True
        self.status = 200
        self.pause = 0.0  # Seconds between pieces of 1,000 bytes.
        self.address = ""

    def url(self, name="file.bin"):
        return f"{self.address}/{name}"


@contextlib.contextmanager
def serving(body):
    server = Server(body)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked = self.headers.get("Range")
            server.ranges.append(asked)
            if server.status != 200:
                self.send_error(server.status)
                return
            first = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            if not server.ranges_work:
                first, asked = 0, None
            if asked and first >= len(server.body):
                self.send_error(416)
                return
            rest = server.body[first:]
            self.send_response(206 if asked else 200)
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
