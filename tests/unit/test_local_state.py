"""Where state goes when the home is on a file system that machines share."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from stoker.api import claim, filesystems, localstate
from stoker.api.claim import Holding
from stoker.api.localstate import prepare
from stoker.api.paths import Home
from stoker.api.standing import Finding, findings
from stoker.errors import Failed
from stoker.library import channel
from stoker.machine import Place
from stoker_home import StokerHome

MOUNTS = b"""\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:25 / /home rw,relatime shared:9 master:1 - nfs4 server:/export/home rw,vers=4.2
31 22 0:26 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw,flock
32 30 0:27 / /home/ada/far\\040away rw - fuse.sshfs ada@far: rw
2 22 0:28 / /two rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("number", "kind", "shared"),
    [(b"22", "ext4", False), (b"30", "nfs4", True), (b"31", "lustre", True),
     (b"32", "fuse.sshfs", True), (b"2", "tmpfs", False), (b"99", "", False)],
)  # fmt: skip
def test_the_kind_of_a_mount_tells_whether_machines_share_it(
    number: bytes, kind: str, shared: bool
) -> None:
    assert filesystems.kind_of_mount(MOUNTS, number) == kind
    assert filesystems.is_shared(kind) == shared


@pytest.mark.parametrize("kind", ["nfs", "cifs", "smb3", "9p", "ceph", "gpfs", "beegfs", "fuse",
                                  "fuse.s3fs", "virtiofs", "afs"])  # fmt: skip
def test_network_and_fuse_file_systems_are_shared(kind: str) -> None:
    assert filesystems.is_shared(kind) and not filesystems.lasts(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "overlay", "fuse.fuse-overlayfs"])
def test_disks_of_this_machine_are_not(kind: str) -> None:
    assert not filesystems.is_shared(kind) and filesystems.lasts(kind)


def test_the_kind_is_asked_of_the_kernel_also_for_what_is_not_there_yet(tmp_path: Path) -> None:
    here = filesystems.kind_of(str(tmp_path))
    assert here and filesystems.kind_of(str(tmp_path / "not" / "yet")) == here
    assert filesystems.kind_of("/proc") == "proc"


@pytest.mark.parametrize(
    ("number", "kind"),
    [(0x6969, "nfs"), (0xFF534D42, "cifs"), (0x0BD00BD0, "lustre"), (0x47504653, "gpfs"),
     (0x19830326, "beegfs"), (0x00C36400, "ceph"), (0x65735546, "fuse"), (0x01021997, "9p")],
)  # fmt: skip
def test_where_no_mount_is_listed_statfs_tells_the_kind(
    number: int, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystems, "kind_of_mount", lambda mountinfo, number: "")
    assert filesystems.kind_of(str(tmp_path)) == ""
    monkeypatch.setattr(filesystems, "statfs_number", lambda fd: number)
    assert filesystems.kind_of(str(tmp_path)) == kind and filesystems.is_shared(kind)


def test_statfs_is_asked_of_the_kernel() -> None:
    fd = os.open("/proc", os.O_PATH)
    assert filesystems.statfs_number(fd) == 0x9FA0
    os.close(fd)
    assert filesystems.statfs_number(fd) == 0


class Places:
    """A usual directory on NFS, and a local one."""

    def __init__(self, root: Path) -> None:
        self.usual = root / "nfs" / "stoker"
        self.local = root / "disk"
        self.local.mkdir()
        self.kinds = {str(self.usual): "nfs4", str(self.local): "ext4"}

    def kind_of(self, path: str) -> str:
        return next((kind for top, kind in self.kinds.items() if path.startswith(top)), "ext4")

    def home(self) -> Home:
        return Home.from_environment({"XDG_STATE_HOME": str(self.usual.parent)})


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    made = Places(tmp_path)
    monkeypatch.setattr(filesystems, "kind_of", made.kind_of)
    monkeypatch.setattr(localstate, "PLACES", (str(tmp_path / "none"), str(made.local)))
    return made


def test_state_is_on_the_local_disk_and_logs_stay_under_the_hosts_name(
    places: Places, capfd: pytest.CaptureFixture[str]
) -> None:
    home = places.home()
    assert home.root == f"{places.local}/stoker-{os.geteuid()}"
    for path in (home.database, home.lock, home.socket, home.claim):
        assert path.startswith(home.root)
    prepare(home)
    logs = places.usual / "hosts" / os.uname().nodename
    assert os.path.realpath(home.attempts) == str(logs / "attempts")
    assert os.path.realpath(home.log) == str(logs / "daemon.log")
    assert os.path.realpath(f"{home.root}/calls") == str(logs / "calls")
    assert stat.S_IMODE(os.stat(home.root).st_mode) == 0o700
    said = capfd.readouterr().err
    assert "nfs4" in said and home.root in said and str(logs) in said and said.count("\n") == 1
    prepare(places.home())
    assert capfd.readouterr().err == "", "it is said once"


def test_two_machines_of_one_name_have_their_logs_apart(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(places.home())
    other = places.local.with_name("other-disk")
    other.mkdir()
    monkeypatch.setattr(localstate, "PLACES", (str(other),))
    prepare(places.home())
    names = sorted(os.listdir(places.usual / "hosts"))
    assert names == [os.uname().nodename, f"{os.uname().nodename}-2"]


def test_several_commands_at_once_agree_on_one_place_for_logs_and_one_tells_of_it(
    places: Places, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    really = os.symlink
    home = places.home()
    other = Thread(target=prepare, args=(home,))

    def symlink(to: str, path: str) -> None:
        monkeypatch.setattr(os, "symlink", really)
        other.start()
        other.join(0.2)  # It would be through by now, if it did not wait.
        really(to, path)

    monkeypatch.setattr(os, "symlink", symlink)
    prepare(home)
    other.join()
    assert os.listdir(places.usual / "hosts") == [os.uname().nodename]
    assert {os.path.dirname(os.readlink(f"{home.root}/{name}")) for name in localstate._LINKS} == {
        str(places.usual / "hosts" / os.uname().nodename)
    }
    assert capfd.readouterr().err.count("\n") == 1


def test_a_place_that_an_administrator_has_made_is_preferred_to_one_that_may_be_tidied_up(
    places: Places, tmp_path: Path
) -> None:
    own = f"stoker-{os.geteuid()}"
    made = tmp_path / "none"
    assert places.home().root == f"{places.local}/{own}", "it is not there"
    made.mkdir()
    assert places.home().root == f"{made}/{own}"
    places.kinds[str(made)] = "nfs"
    assert places.home().root == f"{places.local}/{own}", "it is no disk of this machine"
    del places.kinds[str(made)]
    (places.local / own).mkdir(0o700)
    (places.local / own / "stoker.db").touch()
    assert places.home().root == f"{places.local}/{own}", "what is there is gone on with"


def test_calls_are_put_where_the_nodes_of_a_cluster_can_find_them(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "clear_after_others", lambda root, orders: None)
    made = channel.Channel(places.home())
    try:
        logs = places.usual / "hosts" / os.uname().nodename
        assert made.calls.directory == str(logs / "calls" / made.calls.name)
    finally:
        made.calls.close()


def test_a_state_that_is_there_already_is_gone_on_with(places: Places) -> None:
    places.usual.mkdir(parents=True)
    (places.usual / "stoker.db").touch()
    assert places.home().root == str(places.usual)


@pytest.mark.parametrize("kind", ["nfs", "tmpfs"])
def test_without_a_lasting_local_disk_state_stays_where_it_is(places: Places, kind: str) -> None:
    places.kinds[str(places.local)] = kind
    assert places.home().root == str(places.usual)


def test_stoker_home_is_taken_at_its_word(places: Places) -> None:
    home = Home.from_environment({"STOKER_HOME": str(places.usual)})
    assert home.root == str(places.usual) and not home.kept_in


def test_a_local_directory_that_others_can_open_or_have_put_there_is_refused(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = places.local / f"stoker-{os.geteuid()}"
    elsewhere = places.local / "elsewhere"
    elsewhere.mkdir(0o700)
    local.symlink_to(elsewhere)
    with pytest.raises(Failed, match="not a directory of yours"):
        places.home()
    local.unlink()
    local.mkdir(0o755)
    with pytest.raises(Failed, match="open to other users"):
        places.home()
    local.chmod(0o700)
    places.home()
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    (places.local / "stoker-4242").mkdir(0o700)
    if os.getuid() != 4242:
        with pytest.raises(Failed, match="not a directory of yours"):
            places.home()


def test_a_daemon_runs_with_its_state_here_and_its_logs_there(
    places: Places, tmp_path: Path
) -> None:
    stoker = StokerHome(tmp_path)
    stoker.home = places.home()
    stoker.env["STOKER_HOME"] = stoker.home.root
    try:
        stoker.start()
        [job] = stoker.until_final(stoker.submit("echo", "hello", gpus=0))
        logs = places.usual / "hosts" / os.uname().nodename
        assert job["state"] == "succeeded" and job["log"].startswith(f"{logs}/attempts/")
        assert Path(job["log"]).read_text() == "hello\n"
        assert "ready: version" in (logs / "daemon.log").read_text()
        marked = os.stat(stoker.home.database).st_mode & stat.S_ISVTX
        assert not marked, "this is no place that is tidied up"
        kept = sorted(os.listdir(places.usual))
        assert kept == ["hosts"], "neither database nor lock nor socket is shared"
    finally:
        stoker.clean_up()


def test_a_database_that_may_be_tidied_up_is_marked_as_one_to_keep(places: Places) -> None:
    home = places.home()
    prepare(home)
    Path(home.database).touch(0o600)
    localstate.keep_from_tidying(home)
    assert stat.S_IMODE(os.stat(home.database).st_mode) == 0o1600


# ---------------------------------------------------------------------- what is said of it


def test_findings_say_where_a_state_is_and_why_it_is_not_in_the_home(places: Places) -> None:
    home = places.home()
    [found] = findings(home)
    assert found.is_right and found.text == (
        f"{places.usual} is on nfs4, so state is in {home.root} (ext4), "
        f"and logs are in {places.usual}/hosts"
    )
    assert not os.path.exists(home.root), "nothing is made for that"


@pytest.mark.parametrize(
    ("kind", "word"), [("nfs4", "one machine"), ("tmpfs", "restarts"), ("ext4", "")]
)
def test_findings_warn_of_a_state_that_is_shared_or_does_not_last(
    places: Places, kind: str, word: str
) -> None:
    places.kinds[str(places.local)] = kind
    [found] = findings(Home(str(places.local)))
    assert found.text == f"state is in {places.local} ({kind})"
    assert found.is_right == (not word) and word in found.hint


def test_findings_name_the_machine_that_has_a_state(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(str(places.local))
    Holding(home)
    assert [found.is_right for found in findings(home)] == [True, True]
    elsewhere = Place("bb", "beta", "boot-2", "4026531836-1")
    monkeypatch.setattr(claim, "here", lambda: elsewhere)
    where, whose = findings(home)
    assert where.is_right and not whose.is_right
    assert f"in use by {os.uname().nodename} (user " in whose.text and "daemon stop" in whose.hint
    Path(home.claim).unlink()
    Path(home.claim).mkdir()
    [found] = findings(home)
    assert found == Finding(False, f"can't read {home.claim}: Is a directory", "make it readable")
