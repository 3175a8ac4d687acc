"""Fixtures of the page's tests: a page of one's own, or one that many tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from stoker_home import StokerHome
from web.browser import Tabs, launched
from web.page_home import PageHome


@pytest.fixture
def page(home: StokerHome) -> PageHome:
    """A page of a daemon with four declared GPUs."""
    home.start(gpus="0-3:24G")
    return PageHome(home)


@pytest.fixture(scope="module")
def shared_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHome]:
    """One page for tests that change nothing that others would mind."""
    home = StokerHome(tmp_path_factory.mktemp("page"))
    try:
        home.start(gpus="0-3:24G")
        page = PageHome(home)
        pid, page_pid = home.daemon_pid(), page.pid()
        yield page
        assert home.daemon_pid() == pid, "it is still the same daemon"
        assert page.pid() == page_pid, "it is still the same page"
        assert "Traceback" not in home.log_text()
    finally:
        home.clean_up()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a worker."""
    with launched() as found:
        yield found


@pytest.fixture
def tabs(browser: Browser, page: PageHome) -> Iterator[Tabs]:
    """Tabs on a page of one's own."""
    found = Tabs(browser, page)
    yield found
    found.close()
