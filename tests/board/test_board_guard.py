"""Who may ask the board, and for what."""

import pytest
from boards import served

from report.samples import Sample

TOKEN = "a token & + ; ünïcode"
NEEDED = {
    "content-security-policy", "x-content-type-options", "referrer-policy", "cache-control",
    "cross-origin-resource-policy", "cross-origin-opener-policy",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    top = tmp_path_factory.mktemp("guard")
    (top / "secret.txt").write_text("SECRET")
    Sample(rounds=20).write(top / "outside")
    (top / "outside" / "report.html").write_text("SECRET")
    runs = top / "runs"
    Sample(rounds=20).write(runs / "study" / "a+b ä")
    Sample(rounds=20).write(runs / "plain")
    (runs / "plain" / "report.html").write_text("<p>a report")
    (runs / "linked").symlink_to(top / "outside")
    Sample(rounds=20).write(runs / "inner-links")
    (runs / "inner-links" / "report.html").symlink_to(top / "secret.txt")
    (runs / "inner-links" / "parties.json").unlink()
    (runs / "inner-links" / "parties.json").symlink_to(top / "outside" / "parties.json")
    (runs / "loop").symlink_to(runs)
    return runs


@pytest.fixture(scope="module")
def board(folder):
    with served(folder) as running:
        yield running


@pytest.fixture(scope="module")
def locked(folder):
    with served(folder, host="0.0.0.0", token=TOKEN) as running:
        yield running


@pytest.mark.parametrize(
    "path",
    ["/", "/web/board.js", "/web/plotly.js", "/api/runs", "/api/run?run=plain", "/report/plain",
     "/nowhere", "/report/nowhere", "/api/run?run=..", "/web/..%2fapp.py"],
)  # fmt: skip
def test_every_answer_has_the_headers(board, path):
    answer = board.get(path)
    assert answer.headers.keys() >= NEEDED
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "server" not in answer.headers


def test_refusals_have_the_headers_too(board, locked):
    for _, head, _ in (
        board.raw("/", "Host: evil.example"),
        board.raw("/", method="POST"),
        locked.raw("/"),
    ):
        assert all(f"{name}:" in head for name in NEEDED)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example",
             "localhost:x", "", "10.0.0.1", "[::1", "localhost@evil.example"],
)  # fmt: skip
def test_foreign_hosts_are_refused(board, host):
    status, _, body = board.raw("/api/runs", f"Host: {host}")
    assert status == 400
    assert b"plain" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8421"])
def test_names_of_this_machine_are_served(board, host):
    assert board.raw("/api/runs", f"Host: {host}")[0] == 200


def test_two_hosts_or_none_are_refused(board):
    assert board.raw("/", "Host: localhost", "Host: evil.example")[0] == 400
    assert board.raw("/", "Host:")[0] == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_it_can_only_be_read(board, method):
    status, head, _ = board.raw("/api/runs", "Content-Length: 0", method=method)
    assert status == 405
    assert "allow: get, head" in head


def test_head_works(board):
    for path in ("/", "/api/runs", "/api/events", "/report/plain"):
        status, _, body = board.raw(path, method="HEAD")
        assert (status, body) == (200, b"")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "odd"])
@pytest.mark.parametrize("path", ["/api/runs", "/api/events", "/web/board.js", "/report/plain"])
def test_other_sites_cannot_ask(board, site, path):
    for mode, dest in (("cors", "empty"), ("no-cors", "script"), ("navigate", "iframe")):
        asked = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
        assert board.get(path, headers=asked).status_code == 403


def test_a_link_from_another_site_opens_pages_alone(board):
    opened = {
        "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document",
    }  # fmt: skip
    assert board.get("/", headers=opened).status_code == 200
    assert board.get("/report/plain", headers=opened).status_code == 200
    assert board.get("/api/runs", headers=opened).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000"])
def test_foreign_origins_are_refused(board, origin):
    assert board.get("/api/runs", headers={"origin": origin}).status_code == 403


def test_its_own_page_may_ask(board):
    own = {"origin": board.address.rstrip("/"), "sec-fetch-site": "same-origin"}
    assert board.get("/api/runs", headers=own).status_code == 200


ESCAPES = [
    "..", "../outside", "study/../../outside", "%2e%2e/outside", "..%2foutside", "%2e%2e%2foutside",
    "..%5coutside", "..\\outside", "%252e%252e%252foutside", "/etc", "%2fetc", "//etc/passwd",
    "plain%00", "plain/", "plain/.", "./plain", "plain//", "c:%5c", "linked", "loop/plain", ".hidden",
    "study", "plain/models",
]  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES)
def test_nothing_outside_the_folder_can_be_reached(board, escape):
    for path in (f"/report/{escape}", f"/api/run?run={escape}"):
        status, _, body = board.raw(path)
        assert status in {400, 404}, path
        assert b"SECRET" not in body
        assert b"digits" not in body
    assert board.raw(f"/web/{escape}")[0] == 404


@pytest.mark.parametrize("escape", ["..", "..%2foutside", "%2fetc", "plain%00", "..%5coutside"])
def test_nor_through_the_stream(board, escape):
    assert board.raw(f"/api/events?run={escape}")[0] == 400
    assert board.raw(f"/api/events?open={escape}")[0] == 400


def test_links_are_not_followed(board):
    listed = {run["id"] for run in board.get("/api/runs").json()["runs"]}
    assert listed == {"study/a+b ä", "plain", "inner-links"}
    assert board.get("/api/run?run=inner-links").json()["parties"] == {}
    answer = board.get("/report/inner-links")
    assert answer.status_code == 400
    assert "SECRET" not in answer.text


def test_odd_names_are_served(board):
    answer = board.get("/api/run", params={"run": "study/a+b ä"})
    assert answer.json()["run"]["label"] == "FedGeoMed+"


def test_reports_are_sandboxed(board):
    policy = board.get("/report/plain").headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts allow-downloads; default-src 'none'; ")
    assert "allow-same-origin" not in policy


def test_without_the_token_nothing_is_told(locked):
    for path in ("/", "/api/runs", "/api/events", "/report/plain", "/web/plotly.js"):
        answer = locked.get(path)
        assert answer.status_code == 401
        assert "FedGeoMed" not in answer.text


@pytest.mark.parametrize("wrong", ["a", TOKEN + "x", TOKEN[:-1], "ä"])
def test_a_wrong_token_is_refused(locked, wrong):
    assert locked.get("/", params={"token": wrong}).status_code == 401
    bearer = {"authorization": f"Bearer {wrong}".encode()}
    assert locked.get("/api/runs", headers=bearer).status_code == 401
    name = f"fedplus_board_{locked.place[1]}"
    assert locked.get("/api/runs", headers={"cookie": f"{name}=wrong"}).status_code == 401


def test_the_token_is_taken_once_and_becomes_a_cookie(locked):
    answer = locked.get("/", params={"token": TOKEN, "x": "1"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?x=1"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "ünïcode" not in cookie
    kept = {"cookie": f"other=1; {cookie.partition(';')[0]}"}
    assert locked.get("/api/runs", headers=kept).status_code == 200
    assert locked.get("/api/runs", params={"token": TOKEN}).status_code == 401


def test_the_token_as_a_header(locked):
    bearer = {"authorization": f"Bearer {TOKEN}".encode()}
    assert locked.get("/api/runs", headers=bearer).json()["total"] == 3


def test_the_redirect_stays_on_this_host(locked):
    token = "a%20token%20%26%20%2B%20%3B%20%C3%BCn%C3%AFcode"
    status, head, _ = locked.raw(f"/report//evil.example/?token={token}")
    assert status == 303
    assert "location: /report//evil.example/" in head


def test_the_printed_address_opens_it(locked):
    assert locked.get("/" + locked.address.partition("/?")[2].join(["?", ""])).status_code == 303


def test_a_foreign_host_is_refused_with_the_token_too(locked):
    bearer = "Authorization: Bearer " + TOKEN.encode().decode("latin-1")
    assert locked.raw("/api/runs", "Host: evil.example", bearer)[0] == 400
    assert locked.raw("/api/runs", bearer)[0] == 200
