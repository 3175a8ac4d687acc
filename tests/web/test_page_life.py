"""The page's process: it comes and goes with its daemon, and is brought back when it dies."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.errors import Failed, UsageError
from stoker.installing import install_command
from stoker_home import StokerHome, is_running, kill_and_wait
from waiting import eventually
from web.page_home import PageHome


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_served(page: PageHome) -> bool:
    try:
        return page.ask("GET", "/api/me").status == 200
    except OSError:
        return False


def test_stoker_web_prints_an_address_that_lets_one_browser_in(home: StokerHome) -> None:
    port = free_port()
    ran = home.cli("web", "--port", str(port), "--no-open")
    assert ran.code == 0, ran
    address, key = ran.out.strip().split("#")
    assert address == f"http://127.0.0.1:{port}/enter" and len(key) > 40
    assert "one-time" in ran.err
    page = PageHome(home, port=port)
    page.enter(key)
    again = json.loads(home.stoker("web", "--json"))
    assert again["url"] == f"http://127.0.0.1:{port}", "a page that is there is found"
    assert again["pid"] == page.pid()
    assert home.stoker("web", "status").strip() == page.url
    assert home.cli("web", "stop").code == 0
    assert home.cli("web", "status").code == 1 and not is_served(page)
    assert home.cli("web", "stop").err == "there was no page\n"


def test_a_read_only_address_lets_a_browser_look(home: StokerHome) -> None:
    home.start()
    page = PageHome(home)
    address = home.stoker("web", "--read-only").strip()
    browser = page.enter(address.split("#")[1])
    assert page.get("/api/me", token=None, headers=browser.headers)["read_only"] is True


def test_the_page_ends_with_the_daemon_and_comes_back_with_the_next(home: StokerHome) -> None:
    home.start()
    page = PageHome(home, port=free_port())
    browser, pid = page.enter(), page.pid()
    home.stoker("daemon", "stop")
    eventually(lambda: not is_running(pid), "the page ended with its daemon")
    home.start()
    eventually(lambda: is_served(page), "the page is back where it was")
    assert page.get("/api/me", token=None, headers=browser.headers), "and knows its browsers"


def test_the_page_of_a_killed_daemon_ends_too(home: StokerHome) -> None:
    home.start()
    page = PageHome(home, port=free_port())
    pid = page.pid()
    home.kill_daemon()
    eventually(lambda: not is_running(pid), "the page ended with its daemon")
    home.start()
    eventually(lambda: is_served(page), "the page is back")


def test_a_page_that_dies_is_brought_back_and_no_job_minds(page: PageHome) -> None:
    port = free_port()
    page.start(port=port)
    job = page.home.submit("sleep", "600")
    job_pid = page.home.until_pid(job)
    kill_and_wait(page.pid())
    eventually(lambda: is_served(page), "the page is back")
    assert is_running(job_pid)
    os.kill(page.pid(), signal.SIGTERM)
    eventually(lambda: is_served(page), "the page is back again")


def test_a_page_that_dies_while_no_file_can_be_opened_is_brought_back_later(
    page: PageHome,
) -> None:
    page.start(port=free_port())
    daemon = page.home.daemon_pid()
    before = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    pid = int(page.home.call("page_status")["pid"])
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        kill_and_wait(pid)
        log = Path(page.home.home.log)
        eventually(lambda: "the page is not served" in log.read_text(), "the daemon has tried")
    finally:
        resource.prlimit(daemon, resource.RLIMIT_NOFILE, before)
    eventually(lambda: is_served(page), "the page is back")
    assert page.home.daemon_pid() == daemon


def test_other_settings_move_the_page(page: PageHome) -> None:
    port = free_port()
    before = page.pid()
    page.start(port=port)
    assert page.port == port and page.pid() != before
    after = page.pid()
    page.start()
    assert page.pid() == after, "the same settings change nothing"


def test_a_port_that_is_taken_is_named_and_the_page_stays_where_it_was(page: PageHome) -> None:
    page.start(port=free_port())
    before = page.pid()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(Failed, match=f"something else listens on 127.0.0.1:{taken}"):
            page.home.call("page_start", changes={"port": taken})
    assert page.pid() == before and is_served(page), "it was not stopped for that"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port with which the page begins if none is named, and which another program has."""
    with socket.socket() as other:
        # Tests beside this one hold it too.
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            other.bind(("127.0.0.1", 4004))
            other.listen()
        except OSError:
            pass  # A page of this machine's user has it: that is as good.
        yield 4004


def test_a_page_takes_the_next_free_port_and_says_which(home: StokerHome, taken: int) -> None:
    ran = home.cli("web", "--no-open")
    port = json.loads(home.stoker("web", "status", "--json"))["settings"]["port"]
    assert ran.code == 0 and port > taken
    assert ran.out.startswith(f"http://127.0.0.1:{port}/enter#")
    assert ran.err.startswith(f"port {taken} is taken by another program; the page uses {port}\n")
    assert "taken" not in home.cli("web", "--no-open").err, "a page that is there is no news"
    assert home.stoker("web", "status").strip() == f"http://127.0.0.1:{port}"
    assert f"the page is at http://127.0.0.1:{port}\n" in home.cli("doctor").out


def test_a_page_whose_port_was_not_named_comes_back_where_it_was(
    home: StokerHome, taken: int
) -> None:
    home.start()
    page = PageHome(home, port=None)
    port, pid = page.port, page.pid()
    assert port > taken
    kill_and_wait(pid)
    eventually(lambda: is_served(page), "the page is back on its port")
    home.stoker("daemon", "stop")
    home.start()
    eventually(lambda: is_served(page), "with the next daemon too")
    home.stoker("web", "stop")
    page.start()
    assert page.port == port, "bookmarks stay good"
    home.stoker("web", "stop")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        ran = home.cli("web", "--no-open")
        assert f"port {port} is taken by another program" in ran.err


def test_a_page_that_comes_back_on_another_port_than_the_usual_one_says_so(
    home: StokerHome, taken: int
) -> None:
    home.cli("web", "--no-open")
    port = json.loads(home.stoker("web", "status", "--json"))["settings"]["port"]
    home.stoker("web", "stop")
    told = f"the page has port {port}, as the last time; --port N changes it\n"
    assert home.cli("web", "--no-open").err.startswith(told)
    assert told not in home.cli("web", "--no-open").err, "a page that is there is no news"
    home.stoker("web", "stop")
    assert told not in home.cli("web", "--no-open", "--port", str(port)).err, "it was named"


def test_pages_of_two_homes_run_at_once_and_one_browser_can_use_both(
    home: StokerHome, taken: int, tmp_path: Path
) -> None:
    (tmp_path / "second").mkdir()
    second = StokerHome(tmp_path / "second")
    try:
        home.start()
        second.start()
        pages = [PageHome(one, port=None) for one in (home, second)]
        assert len({taken, *(page.port for page in pages)}) == 3
        browsers = [page.enter() for page in pages]
        # A browser sends its cookies to all ports of a host.
        cookies = "; ".join(browser.headers["cookie"] for browser in browsers)
        for page, browser in zip(pages, browsers, strict=True):
            headers = {**browser.headers, "cookie": cookies}
            assert page.get("/api/me", token=None, headers=headers)
        assert browsers[0].cookie_name != browsers[1].cookie_name
    finally:
        second.clean_up()


def test_a_named_port_that_is_taken_is_one_clear_line(home: StokerHome) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = home.cli("web", "--port", str(port), "--no-open")
    assert (ran.code, ran.out) == (1, "")
    where = f"127.0.0.1:{port}"
    assert ran.err == f"stoker: something else listens on {where}; choose another with --port N\n"


def test_a_page_behind_a_proxy_keeps_to_its_port(home: StokerHome, taken: int) -> None:
    ran = home.cli("web", "--behind-proxy", "--name", "gpu.example.org", "--no-open")
    assert ran.code == 1 and f"something else listens on 127.0.0.1:{taken}" in ran.err


def test_settings_that_are_none_are_refused(page: PageHome) -> None:
    page.start(port=free_port())
    for changes in (
        {"port": "x"},
        {"port": 70_000},
        {"colour": "red"},
        {"names": [1]},
        {"host": "127.0.0.1.5"},
        {"tls_key": "/nowhere"},
    ):
        with pytest.raises(UsageError):
            page.home.call("page_start", changes=changes)
    nowhere = {"tls_key": "/nowhere", "tls_cert": "/nowhere"}
    with pytest.raises(Failed):
        page.home.call("page_start", changes=nowhere)
    eventually(lambda: is_served(page), "the page is where it was")


def test_without_its_libraries_the_page_says_what_to_install(home: StokerHome) -> None:
    stub = home.root / "stub"
    stub.mkdir()
    (stub / "starlette.py").write_text("raise ImportError('not here')\n", encoding="utf-8")
    env = {"PYTHONPATH": f"{home.env['PYTHONPATH']}:{stub}"}
    ran = home.cli("web", env=env)
    assert ran.code == 1
    command = install_command("starlette", "uvicorn")
    assert ran.err == f"stoker: the page needs Starlette and uvicorn; run: {command}\n"


def test_the_page_speaks_tls_with_a_certificate(home: StokerHome) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl: a certificate can't be made")
    cert, key = home.root / "cert.pem", home.root / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    ran = home.cli(
        "web", "--port", str(free_port()), "--tls-cert", str(cert), "--tls-key", str(key)
    )
    assert ran.code == 0 and ran.out.startswith("https://127.0.0.1:")
    port = int(ran.out.split(":")[2].split("/")[0])
    token = home.stoker("token", "create", "x").strip()
    asked = urllib.request.Request(
        f"https://localhost:{port}/api/me", headers={"Authorization": f"Bearer {token}"}
    )
    context = ssl.create_default_context(cafile=str(cert))
    with urllib.request.urlopen(asked, timeout=60, context=context) as answer:
        assert json.load(answer)["read_only"] is False


def test_tokens_are_made_listed_and_revoked(home: StokerHome) -> None:
    made = home.cli("token", "create", "ci", "--read-only", "--lasts", "2h")
    assert made.out.startswith("stoker_") and "not shown again" in made.err
    listed = json.loads(home.stoker("token", "ls", "--json"))["tokens"]
    assert [(one["name"], one["kind"], one["read_only"]) for one in listed] == [
        ("ci", "token", True)
    ]
    assert made.out.strip() not in home.stoker("token", "ls", "--json")
    assert "ci" in home.stoker("token", "ls")
    assert home.cli("token", "create", "ci").err == (
        "stoker: there is a token 'ci' already; choose another name\n"
    )
    assert home.cli("token", "revoke", "nobody").code == 3
    assert home.cli("token", "revoke").code == 2
    assert home.cli("token", "revoke", "ci").err == "revoked ci\n"
    assert home.cli("token", "ls").err.startswith("no tokens")
    home.stoker("token", "create", "a")
    home.stoker("token", "create", "b")
    assert home.cli("token", "revoke", "--all").err == "revoked a, b\n"
    assert not home.daemons(), "no daemon is needed for that"


def test_jobs_from_the_page_have_a_clean_environment(page: PageHome) -> None:
    [job] = page.post("/api/jobs", {"jobs": [{"argv": ["env"], "gpus": 0, "cwd": "~"}]})["ids"]
    page.home.until_final(job)
    seen = dict(line.split("=", 1) for line in page.home.log_of(job).splitlines() if "=" in line)
    assert "PYTHONPATH" not in seen and "PATH" in seen
    assert Path(seen["PWD"] if "PWD" in seen else page.home.job(job)["cwd"]).is_dir()


def test_a_clone_takes_the_environment_of_the_job_it_is_made_of(page: PageHome) -> None:
    [first] = page.home.submit_all([{"argv": ["env"], "gpus": 0}], env={"ONLY": "here"})
    order = {"jobs": [{"argv": ["env"], "gpus": 0}], "environment_of": first}
    [job] = page.post("/api/jobs", order)["ids"]
    page.home.until_final(job)
    assert "ONLY=here" in page.home.log_of(job)
    order["environment_of"] = 99
    reply = page.ask("POST", "/api/jobs", order)
    assert reply.status == 404 and reply.message == "there is no job 99"
