"""The board rejects foreign hosts, cross-site requests, missing tokens and paths outside its folder."""

import pytest
from board_process import running_board

from report.sample_runs import Sample

TOKEN = "a token & + ; ünïcode"
SECURITY_HEADERS = {
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
    with running_board(folder) as running:
        yield running


@pytest.fixture(scope="module")
def token_board(folder):
    with running_board(folder, host="0.0.0.0", token=TOKEN) as running:
        yield running


@pytest.mark.parametrize(
    "path",
    ["/", "/web/board.js", "/web/plotly.js", "/api/runs", "/api/run?run=plain", "/report/plain",
     "/nowhere", "/report/nowhere", "/api/run?run=..", "/web/..%2fapp.py"],
)  # fmt: skip
def test_every_response_has_the_security_headers(board, path):
    response = board.get(path)
    assert response.headers.keys() >= SECURITY_HEADERS
    assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
    assert "server" not in response.headers


def test_rejected_requests_get_the_security_headers(board, token_board):
    for _, head, _ in (
        board.raw("/", "Host: evil.example"),
        board.raw("/", method="POST"),
        token_board.raw("/"),
    ):
        assert all(f"{name}:" in head for name in SECURITY_HEADERS)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example",
             "localhost:x", "", "10.0.0.1", "[::1", "localhost@evil.example"],
)  # fmt: skip
def test_foreign_hosts_are_rejected(board, host):
    status, _, body = board.raw("/api/runs", f"Host: {host}")
    assert status == 400
    assert b"plain" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:8421"])
def test_names_of_this_machine_are_accepted(board, host):
    assert board.raw("/api/runs", f"Host: {host}")[0] == 200


def test_two_hosts_or_none_are_rejected(board):
    assert board.raw("/", "Host: localhost", "Host: evil.example")[0] == 400
    assert board.raw("/", "Host:")[0] == 400


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_and_head_are_allowed(board, method):
    status, head, _ = board.raw("/api/runs", "Content-Length: 0", method=method)
    assert status == 405
    assert "allow: get, head" in head


def test_head_returns_no_body(board):
    for path in ("/", "/api/runs", "/api/events", "/report/plain"):
        status, _, body = board.raw(path, method="HEAD")
        assert (status, body) == (200, b"")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "odd"])
@pytest.mark.parametrize("path", ["/api/runs", "/api/events", "/web/board.js", "/report/plain"])
def test_cross_site_requests_are_rejected(board, site, path):
    for mode, dest in (("cors", "empty"), ("no-cors", "script"), ("navigate", "iframe")):
        headers = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
        assert board.get(path, headers=headers).status_code == 403


def test_a_link_from_another_site_can_only_open_pages(board):
    navigation = {
        "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document",
    }  # fmt: skip
    assert board.get("/", headers=navigation).status_code == 200
    assert board.get("/report/plain", headers=navigation).status_code == 200
    assert board.get("/api/runs", headers=navigation).status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000"])
def test_foreign_origins_are_rejected(board, origin):
    assert board.get("/api/runs", headers={"origin": origin}).status_code == 403


def test_requests_of_the_board_itself_are_accepted(board):
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
def test_the_event_stream_cannot_reach_outside_the_folder(board, escape):
    assert board.raw(f"/api/events?run={escape}")[0] == 400
    assert board.raw(f"/api/events?open={escape}")[0] == 400


def test_links_are_not_followed(board):
    ids = {run["id"] for run in board.get("/api/runs").json()["runs"]}
    assert ids == {"study/a+b ä", "plain", "inner-links"}
    assert board.get("/api/run?run=inner-links").json()["parties"] == {}
    response = board.get("/report/inner-links")
    assert response.status_code == 400
    assert "SECRET" not in response.text


def test_names_with_special_characters_are_found(board):
    response = board.get("/api/run", params={"run": "study/a+b ä"})
    assert response.json()["run"]["label"] == "FedGeoMed+"


def test_reports_are_sandboxed(board):
    policy = board.get("/report/plain").headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts allow-downloads; default-src 'none'; ")
    assert "allow-same-origin" not in policy


def test_requests_without_the_token_are_rejected(token_board):
    for path in ("/", "/api/runs", "/api/events", "/report/plain", "/web/plotly.js"):
        response = token_board.get(path)
        assert response.status_code == 401
        assert "FedGeoMed" not in response.text


@pytest.mark.parametrize("wrong", ["a", TOKEN + "x", TOKEN[:-1], "ä"])
def test_a_wrong_token_is_rejected(token_board, wrong):
    assert token_board.get("/", params={"token": wrong}).status_code == 401
    bearer = {"authorization": f"Bearer {wrong}".encode()}
    assert token_board.get("/api/runs", headers=bearer).status_code == 401
    name = f"fedplus_board_{token_board.host_and_port[1]}"
    assert token_board.get("/api/runs", headers={"cookie": f"{name}=wrong"}).status_code == 401


def test_opening_a_page_with_the_token_sets_a_cookie(token_board):
    response = token_board.get("/", params={"token": TOKEN, "x": "1"})
    assert response.status_code == 303
    assert response.headers["location"] == "/?x=1"
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "ünïcode" not in cookie
    headers = {"cookie": f"other=1; {cookie.partition(';')[0]}"}
    assert token_board.get("/api/runs", headers=headers).status_code == 200
    assert token_board.get("/api/runs", params={"token": TOKEN}).status_code == 401


def test_the_token_is_accepted_as_a_bearer_header(token_board):
    bearer = {"authorization": f"Bearer {TOKEN}".encode()}
    assert token_board.get("/api/runs", headers=bearer).json()["total"] == 3


def test_the_redirect_stays_on_this_host(token_board):
    token = "a%20token%20%26%20%2B%20%3B%20%C3%BCn%C3%AFcode"
    status, head, _ = token_board.raw(f"/report//evil.example/?token={token}")
    assert status == 303
    assert "location: /report//evil.example/" in head


def test_the_printed_address_opens_the_board(token_board):
    assert (
        token_board.get("/" + token_board.address.partition("/?")[2].join(["?", ""])).status_code
        == 303
    )


def test_a_foreign_host_is_rejected_even_with_the_token(token_board):
    bearer = "Authorization: Bearer " + TOKEN.encode().decode("latin-1")
    assert token_board.raw("/api/runs", "Host: evil.example", bearer)[0] == 400
    assert token_board.raw("/api/runs", bearer)[0] == 200
