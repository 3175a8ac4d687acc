"""Who may use the page: every way in that is none is refused, and refused before anything else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from stoker.api.tokens import KEY_LASTS_MS, Access
from stoker.errors import UsageError
from stoker.web.endpoints import ENDPOINTS
from stoker_home import StokerHome
from web.page_home import PageHome

PATHS = [(e.method, e.path.replace("{id}", "1")) for e in ENDPOINTS]
OTHERS = [("GET", "/api/events"), ("GET", "/api/openapi.json"), ("POST", "/api/leave"),
          ("GET", "/api/log/download?ticket=x"), ("GET", "/metrics"), ("GET", "/"),
          ("GET", "/app.js"), ("GET", "/nothing")]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), PATHS + OTHERS)
def test_nothing_is_had_without_a_secret(shared_page: PageHome, method: str, path: str) -> None:
    headers = shared_page.from_own_page()
    for given in ({}, {"cookie": "stoker_page=nonsense"}, {"cookie": "stoker_page"}):
        reply = shared_page.ask(method, path, token=None, headers={**headers, **given})
        assert reply.status == 401
    wrong = shared_page.token[:-1] + ("a" if shared_page.token[-1] != "a" else "b")
    for token in (wrong, "", "é", shared_page.token + "x", shared_page.grant.hash):
        assert shared_page.ask(method, path, token=token.encode().decode("latin-1")).status == 401


@pytest.mark.parametrize(
    ("method", "path"),
    [*PATHS, ("GET", "/api/events"), ("GET", "/api/openapi.json"), ("GET", "/metrics")],
)
def test_a_cookie_alone_is_no_way_in(shared_page: PageHome, method: str, path: str) -> None:
    """Servers of other users on other ports of this machine get to see it."""
    browser = shared_page.enter()
    headers = {**shared_page.from_own_page(), "cookie": browser.headers["cookie"]}
    assert shared_page.ask(method, path, token=None, headers=headers).status == 401
    other = shared_page.enter()
    headers["x-stoker-page"] = other.page
    assert shared_page.ask(method, path, token=None, headers=headers).status == 401


def test_a_browser_that_was_let_in_may_ask_and_order(shared_page: PageHome) -> None:
    browser = shared_page.enter()
    assert "user" in shared_page.get("/api/me", token=None, headers=browser.headers)
    headers = {**browser.headers, **shared_page.from_own_page()}
    job = {"argv": ["true"], "gpus": 0}
    assert shared_page.post("/api/jobs", {"jobs": [job]}, token=None, headers=headers)["ids"]
    assert shared_page.ask("GET", "/", token=None, headers=headers).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "127.0.0.1@evil",
     "[::2]", "127.0.0.1:4004:4004", "localhost:99999999", "127.0.0.2", "LOCALHOST.",
     "127.0.0.1 evil", "2130706433"],
)  # fmt: skip
def test_a_foreign_host_header_is_refused_on_every_route(shared_page: PageHome, host: str) -> None:
    for method, path in [*PATHS, *OTHERS, ("GET", "/enter"), ("POST", "/api/enter")]:
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n"
        head += f"Authorization: Bearer {shared_page.token}\r\nContent-Length: 0\r\n\r\n"
        reply = shared_page.raw(head.encode())
        assert reply.status in (400, 403), (host, path, reply)
        if path == "/enter" and reply.status == 400:
            break  # It never became a request.


def test_two_host_headers_or_none_are_refused(shared_page: PageHome) -> None:
    host = f"127.0.0.1:{shared_page.port}"
    for hosts in ([host, "evil.example"], ["evil.example", host], [host, host], []):
        lines = "".join(f"Host: {name}\r\n" for name in hosts)
        head = f"GET /api/me HTTP/1.1\r\n{lines}Authorization: Bearer {shared_page.token}\r\n\r\n"
        assert shared_page.raw(head.encode()).status in (400, 403)
    head = f"GET /api/me HTTP/1.0\r\nAuthorization: Bearer {shared_page.token}\r\n\r\n"
    assert shared_page.raw(head.encode()).status == 403


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost"])
def test_own_names_are_taken_with_any_port(shared_page: PageHome, name: str) -> None:
    """A tunnel has another port at its other end."""
    for port in ("", ":4004", f":{shared_page.port}"):
        assert shared_page.ask("GET", "/api/me", headers={"host": name + port}).status == 200


@pytest.mark.parametrize(
    "claims",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "OWN1"},
        {"origin": "OWN.evil.example"},
        {"origin": "OWN@evil.example"},
        {"origin": "OWN/"},
        {"origin": "http"},
        {"origin": "http://127.0.0.1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": "OWN", "sec-fetch-site": "cross-site"},
        {"origin": "http://evil.example", "sec-fetch-site": "same-origin"},
        {},
    ],
)
def test_orders_from_other_sites_are_refused_though_the_browser_is_known(
    shared_page: PageHome, claims: dict[str, str]
) -> None:
    browser = shared_page.enter()
    before = shared_page.get("/api/jobs?limit=0")["total"]
    claims = {k: v.replace("OWN", shared_page.origin) for k, v in claims.items()}
    for path in ("/api/jobs", "/api/jobs/cancel", "/api/gpus/drain", "/api/leave"):
        reply = shared_page.ask(
            "POST",
            path,
            {"jobs": [{"argv": ["true"]}], "all": True},
            token=None,
            headers={**browser.headers, **claims},
        )
        assert reply.status == 403, (path, reply)
    assert shared_page.get("/api/jobs?limit=0")["total"] == before


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_questions_from_other_sites_are_refused_too(shared_page: PageHome, site: str) -> None:
    browser = shared_page.enter()
    headers = {**browser.headers, "sec-fetch-site": site}
    assert shared_page.ask("GET", "/api/jobs", token=None, headers=headers).status == 403


@pytest.mark.parametrize(
    "kind",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "",
     "application/jsonp", "application/json; charset=latin-1", "text/json"],
)  # fmt: skip
def test_only_json_is_taken_so_that_no_form_can_post(shared_page: PageHome, kind: str) -> None:
    browser = shared_page.enter()
    headers = {**browser.headers, **shared_page.from_own_page(), "content-type": kind}
    body = b'{"jobs": [{"argv": ["true"]}]}'
    reply = shared_page.ask("POST", "/api/jobs", body, token=None, headers=headers)
    assert reply.status == 415


@pytest.mark.parametrize(
    "target",
    ["/x/../api/me", "/api/../api/me", "/api/./me", "//api/me", "/api//me", "/api/me/", "/%61pi/me",
     "/api%2fme", "/api/%2e%2e/api/me", "/api/me%00", "/api\\me", "/api/me;x=1", "/.git/config",
     "/static/../main.py", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/jobs/1/..",
     "/api/me#x", "*", "http://127.0.0.1/api/me", "/api/me\t", "/ﬁle", "/enter/../api/me",
     "/enter.js/../api/me", "/enter%2f..%2fapi%2fme"],
)  # fmt: skip
def test_paths_that_could_be_read_in_two_ways_are_refused(
    shared_page: PageHome, target: str
) -> None:
    for authorization in (f"Authorization: Bearer {shared_page.token}\r\n", ""):
        head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n"
        reply = shared_page.raw(head.encode())
        assert reply.status in (400, 404), (target, reply)
        assert b"root:" not in reply.body


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "XY"])
def test_other_methods_are_refused_and_nobody_is_invited_across_origins(
    shared_page: PageHome, method: str
) -> None:
    for path in ("/api/jobs", "/", "/enter"):
        headers = {"origin": shared_page.origin, "access-control-request-method": "POST"}
        reply = shared_page.ask(method, path, headers=headers)
        assert reply.status in (400, 405)
        assert not any(name.startswith("access-control") for name in reply.headers)


def test_a_websocket_is_refused(shared_page: PageHome) -> None:
    head = (
        "GET /api/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert shared_page.raw(head.encode()).status == 401


@pytest.mark.parametrize("path", ["/enter", "/enter.js", "/api/me", "/nothing", "/api/jobs/x"])
def test_every_answer_forbids_what_a_page_need_not_do(shared_page: PageHome, path: str) -> None:
    for token in (None, "own"):
        headers = shared_page.ask("GET", path, token=token).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "trusted-types 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] in ("no-store", "no-cache")
        assert "server" not in headers


# ---------------------------------------------------------------------- secrets


def test_a_one_time_address_is_good_once(shared_page: PageHome) -> None:
    key = shared_page.access.new_key()
    shared_page.enter(key)
    reply = shared_page.ask(
        "POST", "/api/enter", {"secret": key}, token=None, headers=shared_page.from_own_page()
    )
    assert reply.status == 401 and "stoker web" in reply.json["error"]["hint"]


def test_a_one_time_address_is_not_good_for_long(shared_page: PageHome) -> None:
    past = Access(shared_page.home.home, now_ms=lambda: Access(shared_page.home.home).now_ms()
                  - KEY_LASTS_MS - 1)  # fmt: skip
    reply = shared_page.ask(
        "POST",
        "/api/enter",
        {"secret": past.new_key()},
        token=None,
        headers=shared_page.from_own_page(),
    )
    assert reply.status == 401


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(shared_page: PageHome) -> None:
    reply = shared_page.ask(
        "POST",
        "/api/enter",
        {"secret": shared_page.access.new_key()},
        token=None,
        headers=shared_page.from_own_page(),
    )
    [cookie] = reply.cookies
    parts = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert cookie.split("=")[1].split(";")[0] not in reply.body.decode()


def test_a_browser_that_left_has_to_ask_again(shared_page: PageHome) -> None:
    browser = shared_page.enter()
    headers = {**browser.headers, **shared_page.from_own_page()}
    shared_page.post("/api/leave", token=None, headers=headers)
    assert shared_page.ask("GET", "/api/me", token=None, headers=headers).status == 401


def test_a_read_only_token_looks_but_gives_no_orders(shared_page: PageHome) -> None:
    reader = shared_page.reader
    assert shared_page.get("/api/me", token=reader)["read_only"] is True
    for method, path in PATHS:
        reply = shared_page.ask(method, path, token=reader)
        if method == "POST" and path not in ("/api/sweep/preview", "/api/log/ticket"):
            assert reply.status == 403 and "read-only" in reply.message
        else:
            assert reply.status != 403
    browser = shared_page.enter(reader)
    headers = {**browser.headers, **shared_page.from_own_page()}
    assert shared_page.get("/api/me", token=None, headers=headers)["read_only"] is True
    assert shared_page.ask("POST", "/api/jobs", {}, token=None, headers=headers).status == 403


def test_a_revoked_token_is_good_for_nothing_at_once(shared_page: PageHome) -> None:
    secret, _ = shared_page.access.new_token("brief", read_only=False, lasts_ms=None)
    shared_page.get("/api/me", token=secret)
    shared_page.home.stoker("token", "revoke", "brief")
    assert shared_page.ask("GET", "/api/me", token=secret).status == 401


def test_secrets_are_kept_as_hashes_in_a_private_file_and_are_never_logged(
    page: PageHome,
) -> None:
    browser = page.enter()
    page.get("/api/me", token=None, headers=browser.headers)
    page.ask("GET", f"/api/me?token={page.token}", token="wrong-secret")
    kept = Path(page.access.path)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for secret in (page.token, page.reader, browser.cookie, browser.page):
        assert secret not in kept.read_text(encoding="utf-8")
        for path in Path(page.home.home.root).glob("*.log"):
            assert secret not in path.read_text(encoding="utf-8", errors="replace")
    for path in Path(page.home.home.root).glob("page-access*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_grants_that_was_spoiled_lets_nobody_in(page: PageHome) -> None:
    Path(page.access.path).write_text('{"grants": [{"id": 1}]}', encoding="utf-8")
    assert page.ask("GET", "/api/me").status in (401, 500)


@pytest.mark.parametrize("host", ["0.0.0.0", "gpu.example"])
def test_an_address_that_others_reach_needs_a_token_and_tls(home: StokerHome, host: str) -> None:
    home.start()
    with pytest.raises(UsageError, match=r"a token .* and TLS"):
        home.call("page_start", changes={"host": host, "port": 0})
    Access(home.home).new_token("t", read_only=True, lasts_ms=None)
    with pytest.raises(UsageError, match="that needs TLS"):
        home.call("page_start", changes={"host": host, "port": 0})
    with pytest.raises(UsageError, match="a certificate and its key"):
        home.call("page_start", changes={"host": host, "port": 0, "tls_cert": "/x"})
    Access(home.home).revoke_all()
    with pytest.raises(UsageError, match="that needs a token"):
        home.call("page_start", changes={"host": host, "port": 0, "behind_proxy": True})
    assert home.call("page_status")["running"] is False


def test_behind_a_proxy_the_page_goes_by_its_public_name(home: StokerHome) -> None:
    home.start()
    page = PageHome(home)
    home.call(
        "page_start", changes={"behind_proxy": True, "names": ["gpu.example"], "port": page.port}
    )
    public = {"host": "gpu.example", "origin": "https://gpu.example"}
    reply = page.ask(
        "POST", "/api/enter", {"secret": page.access.new_key()}, token=None, headers=public
    )
    assert reply.status == 200 and "secure" in reply.cookies[0].lower()
    plain = {"host": "gpu.example", "origin": "http://gpu.example"}
    assert page.ask("POST", "/api/enter", {"secret": "x"}, token=None, headers=plain).status == 403
    assert page.ask("GET", "/api/me", headers={"host": "other.example"}).status == 403


def test_the_pages_own_files_are_those_of_one_folder(shared_page: PageHome) -> None:
    import stoker.web

    folder = Path(stoker.web.__file__).parent
    for name in ("main.py", "static", "static/app.js", "guard.py", "index.html", "enter.html"):
        assert shared_page.ask("GET", f"/{name}").status == 404
    files = [one for one in (folder / "static").rglob("*") if one.is_file()]
    assert any(one.parent.name == "vendor" for one in files)
    for file in files:
        if file.name not in ("index.html", "enter.html"):
            path = file.relative_to(folder / "static")
            assert shared_page.ask("GET", f"/{path}").status == 200, path
