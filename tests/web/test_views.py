"""Each view in a real browser, live, while jobs run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from outside import Train
from web.browser import Tabs


def row(tab: Page, job_id: int) -> object:
    return tab.locator(f".rows .row:has(a[href='#/job/{job_id}']):not([hidden])")


def states(tab: Page) -> dict[str, str]:
    """The state of each job in the list, by id."""
    found: dict[str, str] = tab.evaluate(
        "() => Object.fromEntries([...document.querySelectorAll('.rows .row:not([hidden])')]"
        ".map((row) => [row.querySelector('.c-id').textContent,"
        " row.querySelector('.c-state').textContent]))"
    )
    return found


def test_now_shows_jobs_on_their_gpus_as_they_come_and_go(tabs: Tabs) -> None:
    tab = tabs.enter()
    home = tabs.page.home
    cards = tab.locator(".gpu")
    expect(cards).to_have_count(4)
    expect(tab.locator(".gpu >> text=not measured")).to_have_count(4)
    expect(tab.locator(".list")).to_contain_text("Nothing has been queued yet.")
    flag = home.work / "go"
    wait = f"while [ ! -e {flag} ]; do sleep 0.05; done"
    [big] = home.submit_all([{"shell": wait, "name": "big one", "gpus": 4}])
    [small] = home.submit_all([{"argv": ["true"], "name": "small", "priority": 3}])
    for card in cards.all():
        expect(card.locator("li a")).to_have_text(f"{big} big one")
        expect(card.locator(".owner")).to_have_text("tester")
        expect(card.locator(".time")).to_have_text(re.compile(r"\ds"))
    waiting = tab.locator(".row", has_text="small")
    expect(waiting.locator(".c-state")).to_have_text("waiting")
    expect(waiting.locator(".c-why")).to_have_text("1. needs 1 GPU, 0 of 4 free")
    expect(tab.locator(".total[data-state=running] b")).to_have_text("1")
    expect(tab.locator(".size")).to_have_text("2 jobs")
    flag.touch()
    expect(waiting.locator(".c-state")).to_have_text("succeeded")
    expect(tab.locator(".total[data-state=succeeded] b")).to_have_text("2")
    expect(cards.first.locator("li")).to_have_text("free")
    assert states(tab) == {str(big): "succeeded", str(small): "succeeded"}


def test_expected_starts_are_shown_where_they_can_be_told(tabs: Tabs) -> None:
    home = tabs.page.home
    home.submit("sleep", "600", gpus=4, time_limit_ms=3_000_000)
    home.submit("true", name="next")
    tab = tabs.enter()
    expect(tab.locator(".row", has_text="next").locator(".c-when")).to_have_text(
        re.compile(r"in (49|50)m")
    )


def test_the_list_is_narrowed_sorted_and_given_orders(tabs: Tabs) -> None:
    home = tabs.page.home
    home.call("pause")
    home.submit_all([{"argv": ["true"], "name": f"job-{c}", "group": "g1"} for c in "bca"])
    home.submit("true", name="other", group="g2")
    tab = tabs.enter()
    expect(tab.locator("#notice")).to_have_text("The queue is paused: nothing new starts.")
    names = tab.locator(".rows .row:not([hidden]) .title")
    expect(names).to_have_text(["job-b", "job-c", "job-a", "other"])
    tab.locator(".head .c-name button").click()
    order = "[...document.querySelectorAll('.rows .row:not([hidden])')]"
    order += ".sort((a, b) => a.dataset.place - b.dataset.place)"
    order += ".map((row) => row.querySelector('.title').textContent).join()"
    tab.wait_for_function(f"() => {order} === 'job-a,job-b,job-c,other'")
    tab.locator(".head .c-name button").click()
    tab.wait_for_function(f"() => {order} === 'other,job-c,job-b,job-a'")
    tab.get_by_label("Filter").fill("job- g1")
    expect(tab.locator(".size")).to_have_text("3 jobs")
    tab.get_by_label("Filter").fill("")
    tab.locator(".row", has_text="other").locator(".group").click()
    expect(tab.locator(".size")).to_have_text("1 job")
    expect(tab.get_by_label("Filter")).to_have_value("group:g2")
    tab.get_by_label("Filter").fill("")
    expect(tab.locator(".size")).to_have_text("4 jobs")
    for name in ("job-a", "job-b"):
        tab.locator(".row", has_text=name).locator("input").check()
    expect(tab.locator(".chosen")).to_contain_text("2 jobs chosen")
    tab.locator(".chosen >> text=Hold").click()
    expect(tab.locator(".row", has_text="job-a").locator(".c-state")).to_have_text("held")
    expect(tab.locator(".row", has_text="job-b").locator(".c-state")).to_have_text("held")
    expect(tab.locator(".chosen")).to_be_hidden()
    tab.get_by_role("button", name="Resume the queue").click()
    expect(tab.locator(".row", has_text="other").locator(".c-state")).to_have_text("succeeded")
    expect(tab.locator("#notice")).to_be_hidden()
    tab.get_by_role("button", name="Waiting").click()
    expect(tab.locator(".size")).to_have_text("2 jobs")


def test_a_job_from_the_form_is_seen_to_run_its_log_followed_and_cancelled(tabs: Tabs) -> None:
    home = tabs.page.home
    tab = tabs.enter("#/submit")
    tab.get_by_label("Command").fill(
        "i=0; while true; do i=$((i+1)); echo line $i of the log; sleep 0.05; done"
    )
    tab.get_by_label("Name").fill("counts for ever")
    tab.get_by_label("Directory").fill(str(home.work))
    tab.get_by_label("GPUs", exact=False).first.fill("2")
    tab.get_by_role("button", name="Queue the job").click()
    tab.get_by_role("link", name="job 1").click()
    expect(tab.locator(".jobhead .state")).to_have_text("running")
    expect(tab.locator(".facts")).to_contain_text("2 GPUs")
    expect(tab.locator(".facts")).to_contain_text(str(home.work))
    expect(tab.locator(".history")).to_contain_text("started on GPU 0, 1")
    lines = tab.locator(".log .line")
    expect(lines.first).to_have_text("line 1 of the log")
    expect(tab.locator(".log")).to_contain_text("line 40 of the log")
    at_end = "() => { const b = document.querySelector('.log');"
    at_end += " return b.scrollHeight - b.scrollTop - b.clientHeight < 40; }"
    tab.wait_for_function(at_end)
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.locator("dialog h2")).to_have_text("Stop job 1?")
    tab.locator("dialog").get_by_role("button", name="Back").click()
    expect(tab.locator(".jobhead .state")).to_have_text("running")
    tab.keyboard.press("c")
    tab.locator("dialog").get_by_role("button", name="Stop").click()
    expect(tab.locator(".jobhead .state")).to_have_text("cancelled")
    assert home.job(1)["state"] == "cancelled" and home.job(1)["cwd"] == str(home.work)


@pytest.mark.skipif(shutil.which("sbatch") is None, reason="Slurm is not installed here")
def test_the_form_sends_a_job_to_the_cluster(tabs: Tabs) -> None:
    tab = tabs.enter("#/submit")
    tab.get_by_label("Command").fill("true")
    tab.get_by_text("On a cluster").click()
    tab.get_by_label("Executor").select_option("slurm")
    tab.get_by_label("Hold").select_option("yes")
    tab.get_by_role("button", name="Queue the job").click()
    tab.get_by_role("link", name="job 1").click()
    expect(tab.locator(".facts")).to_contain_text("Slurm")
    assert tabs.page.home.job(1)["executor"] == "slurm"
    tab.get_by_role("link", name="Clone").click()
    expect(tab.get_by_label("Executor")).to_have_value("slurm")


def test_many_lines_become_as_many_jobs(tabs: Tabs) -> None:
    tab = tabs.enter("#/submit/lines")
    tab.get_by_label("Commands, one a line").fill("echo one\n# not this\n\n  echo two  \nexit 3\n")
    expect(tab.locator("form")).to_contain_text("3 jobs")
    tab.get_by_label("Group").fill("lines")
    tab.get_by_role("button", name="Queue the lines").click()
    expect(tab.locator(".done")).to_have_text("3 jobs queued: 1 to 3.")
    jobs = tabs.page.home.until_final(1, 2, 3)
    assert [job["command"] for job in jobs] == ["echo one", "echo two", "exit 3"]
    assert {job["group"] for job in jobs} == {"lines"}


def test_many_lines_take_the_names_and_output_files_that_gpupeasys_page_took(tabs: Tabs) -> None:
    tabs.expects_refusals = True
    home = tabs.page.home
    tab = tabs.enter("#/submit/lines")
    box = tab.get_by_label("Commands, one a line")
    box.fill("first;;first.txt;;echo one;;;\nsecond;;;;echo two;\necho three;;;\n")
    expect(tab.locator("form")).to_contain_text("2 jobs")
    expect(tab.locator(".preview tbody tr")).to_have_count(2)
    expect(tab.locator(".preview tbody tr").first).to_have_text("firstfirst.txtecho one")
    tab.get_by_label("Directory").fill(str(home.work))
    tab.get_by_role("button", name="Queue the lines").click()
    expect(tab.locator(".done")).to_have_text("2 jobs queued: 1 to 2.")
    first, second = home.until_final(1, 2)
    assert (first["name"], first["log"]) == ("first", str(home.work / "first.txt"))
    assert (second["name"], second["command"]) == ("second", "echo two;\necho three")
    box.fill("no command;;;")
    expect(tab.locator("form")).to_contain_text(
        "“no command” ends with ;;;, but is not NAME;;OUT;;COMMAND. Write all three parts"
    )
    box.fill("no command\n" + "x" * 500 + ";;;")
    expect(tab.locator("form")).to_contain_text("“no command…” ends with ;;;")


@pytest.mark.parametrize("text", ["a;;o.txt;;echo 1", "a;;o.txt;;echo 1\nb;;;;echo 2;;;"])
def test_a_named_job_without_its_end_is_no_command(tabs: Tabs, text: str) -> None:
    tab = tabs.enter("#/submit/lines")
    tab.get_by_label("Commands, one a line").fill(text)
    expect(tab.locator("form")).to_contain_text("has no ;;; at its end. End each job with ;;;")
    tab.get_by_role("button", name="Queue the lines").click()
    expect(tab.locator("form .error")).to_contain_text("has no ;;; at its end")
    assert tabs.page.home.jobs() == {}


def test_many_lines_leave_commands_as_they_are_and_skip_comments(tabs: Tabs) -> None:
    home = tabs.page.home
    tab = tabs.enter("#/submit/lines")
    box = tab.get_by_label("Commands, one a line")
    kept = 'echo "a;;b"; case x in x) echo 1;; y) echo 2;; esac\n# of the command\necho 3'
    box.fill(
        f"# the first\n\n  # of two\none;;;;{kept};;;\n# off;;;;echo no;;;\ntwo;;;;echo 2;;;\n# end"
    )
    expect(tab.locator("form")).to_contain_text("2 jobs")
    tab.get_by_role("button", name="Queue the lines").click()
    expect(tab.locator(".done")).to_have_text("2 jobs queued: 1 to 2.")
    first, second = home.until_final(1, 2)
    assert (first["name"], first["command"]) == ("one", kept)
    assert (second["name"], second["command"]) == ("two", "echo 2")
    box.fill("case x in x) echo 1;; y) echo 2;; esac\necho 'a;;b;;c'")
    expect(tab.locator("form")).to_contain_text("2 jobs")


def test_a_job_is_suspended_and_goes_on(tabs: Tabs) -> None:
    job = tabs.page.home.submit("sleep", "1000")
    tabs.page.home.until_pid(job)
    tab = tabs.enter(f"#/job/{job}")
    state = tab.locator(".jobhead .state")
    tab.get_by_role("button", name="Suspend").click()
    expect(state).to_have_text("suspended")
    expect(tab.locator(".jobhead .why")).to_contain_text("suspended for")
    tab.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("running")
    tabs.page.home.stoker("cancel", str(job))


def test_a_job_is_held_released_edited_retried_and_cloned(tabs: Tabs) -> None:
    tabs.expects_refusals = True
    home = tabs.page.home
    home.call("pause")
    [job] = home.submit_all(
        [{"argv": ["sh", "-c", "echo $MARK; exit 2"], "name": "try"}], env={"MARK": "kept"}
    )
    tab = tabs.enter(f"#/job/{job}")
    state = tab.locator(".jobhead .state")
    expect(tab.locator(".jobhead .why")).to_contain_text("the queue is paused")
    tab.get_by_role("button", name="Hold").click()
    expect(state).to_have_text("held")
    tab.get_by_role("button", name="Release").click()
    expect(state).to_have_text("waiting")
    tab.get_by_title("Sooner").click()
    expect(tab.locator(".facts")).to_contain_text("Priority-1")
    tab.get_by_role("button", name="Edit").click()
    dialog = tab.locator("dialog")
    dialog.get_by_label("Name").fill("edited")
    dialog.get_by_label("GPUs").fill("9")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.locator(".field .error")).to_contain_text("only 4")
    dialog.get_by_label("GPUs").fill("2")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(tab.locator("h1 bdi")).to_have_text("edited")
    expect(tab.locator(".facts")).to_contain_text("2 GPUs")
    home.call("resume")
    expect(state).to_have_text("failed")
    expect(tab.locator(".jobhead .why")).to_have_text("exit code 2")
    tab.get_by_role("button", name="Retry").click()
    expect(tab.locator(".history")).to_contain_text("attempt 2 failed: exit code 2")
    tab.get_by_role("link", name="Clone").click()
    expect(tab.get_by_label("Command")).to_have_value("sh -c 'echo $MARK; exit 2'")
    tab.get_by_role("button", name="Queue the job").click()
    tab.get_by_role("link", name=f"job {job + 1}").click()
    expect(tab.locator(".log")).to_contain_text("kept")
    assert home.job(job + 1)["argv"] == ["sh", "-c", "echo $MARK; exit 2"]


def test_forms_and_the_edit_dialog_tell_of_jobs_that_share_an_output_file(tabs: Tabs) -> None:
    home = tabs.page.home
    path = home.work / "shared.txt"
    home.call("pause")
    [first] = home.submit_all([{"argv": ["true"], "out": str(path)}])
    told = f"Note: job {first} has not ended, and writes to {path} as well."
    tab = tabs.enter("#/submit/lines")
    tab.get_by_label("Commands, one a line").fill(f"a;;{path};;true;;;")
    tab.get_by_role("button", name="Queue the lines").click()
    expect(tab.locator(".done")).to_have_text(f"Queued as job {first + 1}. {told}")
    home.call("cancel", select={"ids": [str(first + 1)]})
    [second] = home.submit_all([{"argv": ["true"]}])
    tab = tabs.enter(f"#/job/{second}")
    tab.get_by_role("button", name="Edit").click()
    dialog = tab.locator("dialog")
    expect(dialog.locator("[name=out]")).to_be_attached()
    dialog.locator("details").evaluate_all("all => all.forEach((one) => (one.open = true))")
    dialog.locator("[name=out]").fill(str(path))
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_role("status")).to_have_text(f"Saved. {told}")
    expect(dialog.get_by_role("button", name="Save")).to_have_count(0)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    home.call("resume")
    assert home.until_final(second)[0]["log"] == str(path)


def test_the_disk_view_says_what_takes_room_and_warns_when_little_is_free(tabs: Tabs) -> None:
    home = tabs.page.home
    job = home.submit("sh", "-c", "head -c 3M /dev/urandom | base64", group="<b>noisy", gpus=0)
    home.until_final(job)
    tab = tabs.enter()
    tab.keyboard.press("5")
    expect(tab.locator(".disk")).to_contain_text("database")
    expect(tab.locator(".disk .card", has_text="Of jobs")).to_contain_text("<b>noisy")
    expect(tab.locator(".room").first).to_contain_text("free on the disk of")
    expect(tab.locator(".room .bad")).to_have_count(0)
    expect(tab.locator("#notice a")).to_have_count(0)
    home.call("config_set", name="disk-warn", value="99%")
    tab.locator("#notice a").click()
    tab.reload()
    expect(tab.locator(".room .bad").first).to_contain_text("disk-warn")
    tab.get_by_role("link", name=f"job {job}").click()
    expect(tab.locator("h1")).to_contain_text(str(job))


def test_the_view_of_a_job_names_the_commit_that_it_was_queued_at(tabs: Tabs) -> None:
    home = tabs.page.home
    commit = "ab" * 20
    code = {str(home.work): [str(home.work), commit, 1]}
    [job] = home.submit_all([{"argv": ["true"], "gpus": 0}], code=code)
    tab = tabs.enter(f"#/job/{job}")
    expect(tab.locator(".facts")).to_contain_text(f"Commit{commit[:12]}, unknown whether changed")


def test_the_timeline_has_a_bar_a_job_and_the_plan_ahead(tabs: Tabs) -> None:
    home = tabs.page.home
    home.submit("sleep", "600", name="long", gpus=2, time_limit_ms=600_000)
    home.submit("sleep", "600", name="other", gpus=2, time_limit_ms=900_000)
    home.submit("true", name="to come", gpus=3, time_limit_ms=60_000)
    tab = tabs.enter("#/timeline")
    expect(tab.locator(".lane")).to_have_count(4)
    expect(tab.locator(".lane[aria-label='GPU 0'] .tbar[data-state=running]")).to_have_count(1)
    expect(tab.locator(".tbar.ahead")).to_have_count(3)
    expect(tab.locator(".tbar.rest")).to_have_count(4)
    tab.locator(".tbar[data-state=running]").first.hover()
    expect(tab.locator("#tip")).to_contain_text("long")
    tab.locator(".tbar.ahead").first.focus()
    expect(tab.locator("#tip")).to_contain_text("expected to start in 1")
    ran = home.submit("true", name="quick", gpus=0)
    home.until_final(ran)
    quick = tab.locator(".lane[aria-label='no GPU'] .tcount[data-state=succeeded]")
    expect(quick).to_have_count(1)
    tab.get_by_role("button", name="24 h").click()
    quick.focus()
    tab.keyboard.press("Enter")
    expect(tab.locator("h1")).to_contain_text("quick")


def test_a_sweep_is_previewed_submitted_and_looked_at(tabs: Tabs, tmp_path: Path) -> None:
    home = tabs.page.home
    tabs.expects_refusals = True  # While one types, it is not right yet.
    tab = tabs.enter("#/submit/sweep")
    tab.get_by_label("Parameters, one a line").fill("lr=0.1,0.01,0.001\nbs=16,32")
    tab.get_by_label("Command").fill("test {lr} != 0.01 -o {bs} = 16")
    preview = tab.locator(".preview")
    expect(preview).to_contain_text("6 points")
    expect(preview).to_contain_text("test 0.001 != 0.01 -o 32 = 16")
    tab.get_by_label("Only where").fill("lr < nothing")
    expect(preview.locator(".error")).to_contain_text("nothing")
    tab.get_by_label("Only where").fill("")
    expect(preview).to_contain_text("6 points")
    tab.get_by_label("Name", exact=True).fill("try it")
    tab.get_by_role("button", name="Queue the sweep").click()
    expect(tab.locator(".done")).to_contain_text("6 points: 6 queued.")
    tab.get_by_role("link", name="To the sweep").click()
    expect(tab.locator("h1")).to_have_text("try it")
    expect(tab.locator(".points tbody tr")).to_have_count(6)
    expect(tab.locator("section", has_text="6 points").first).to_contain_text(
        "6 points: 1 failed, 5 succeeded"
    )
    expect(tab.locator(".lines-across path")).to_have_count(6)
    expect(tab.locator(".heat tr")).to_have_count(3)
    tab.get_by_label("Colour", exact=True).select_option("good")
    expect(tab.locator(".heat")).to_contain_text("0 %")
    tab.locator("th button", has_text="lr").click()
    expect(tab.locator(".points tbody tr").first).to_contain_text("0.001")
    tab.locator("th button", has_text="lr").click()
    expect(tab.locator(".points tbody tr").first).to_contain_text("0.1")
    tab.get_by_label("Filter the points").fill("bs=32 failed")
    expect(tab.locator(".points tbody tr")).to_have_count(1)
    with tab.expect_download() as coming:
        tab.get_by_role("button", name="CSV").click()
    saved = tmp_path / "sweep.csv"
    coming.value.save_as(saved)
    [head, line] = saved.read_text(encoding="utf-8").splitlines()
    assert head == "id,state,lr,bs,run_time_s,gpus,exit_code,signal"
    assert re.fullmatch(r"\d,failed,0.01,32,[0-9.]+,\d,1,", line)
    tab.get_by_role("link", name="Sweeps", exact=True).click()
    expect(tab.locator("tbody tr")).to_contain_text("1 failed, 5 succeeded")
    tab.locator("tbody a").click()
    tab.locator(".points tbody a").first.click()
    expect(tab.locator(".facts")).to_contain_text("Parameters")
    tabs.go(tab, "#/submit/sweep")
    tab.get_by_role("button", name="Queue the sweep").click()
    expect(tab.locator(".done")).to_contain_text("1 queued, 5 succeeded before")
    assert home.call("sweeps")["sweeps"][0]["points"] == 6


def test_gpus_are_added_drained_resumed_and_removed(tabs: Tabs) -> None:
    tab = tabs.enter()
    tab.get_by_role("button", name="Add GPUs").click()
    dialog = tab.locator("dialog")
    dialog.get_by_label("GPUs to add").fill("nonsense:x")
    tabs.expects_refusals = True
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.locator(".error")).to_contain_text("'x' is not an amount of memory. Write")
    dialog.get_by_label("GPUs to add").fill("4:80G, 5")
    dialog.get_by_role("button", name="Add").click()
    cards = tab.locator(".gpu")
    expect(cards).to_have_count(6)
    expect(cards.nth(4).locator(".memory")).to_have_text("0 / 80 GiB")
    expect(cards.nth(5).get_by_role("button", name="Remove")).to_be_hidden()
    cards.nth(5).get_by_role("button", name="GPU 5").click()
    cards.nth(5).get_by_role("button", name="Remove").click()
    tab.locator("dialog").get_by_role("button", name="Remove").click()
    expect(cards).to_have_count(5)
    tab.get_by_role("button", name="Large cards").click()
    card = tab.locator(".gpu", has_text="GPU 0")
    card.get_by_role("button", name="Drain").click()
    expect(card.locator(".badge")).to_have_text("drained")
    expect(card.locator("li")).to_have_text("drained: takes nothing new")
    card.get_by_role("button", name="Resume").click()
    expect(card.locator(".badge")).to_have_count(0)


def test_a_running_process_is_adopted_in_a_form_and_let_go_in_its_view(
    tabs: Tabs, train: Train
) -> None:
    process = train()
    tab = tabs.enter("#/submit/adopt")
    tab.fill("[name=pid]", str(process.pid))
    tab.fill("[name=on]", "1")
    tab.click("text=Make it a job")
    done = tab.locator(".done")
    expect(done).to_contain_text(f"is process {process.pid} (cat -) on GPU 1.")
    done.locator("a").click()
    expect(tab.locator(".facts")).to_contain_text(f"process {process.pid} (cat -)")
    expect(tab.get_by_role("button", name="Cancel")).to_be_hidden()
    tab.get_by_role("button", name="Let go").click()
    tab.locator("dialog").get_by_role("button", name="Let go").click()
    expect(tab.locator(".jobhead .state")).to_have_text("cancelled")
    assert process.poll() is None


@pytest.mark.parametrize("read_only", [True])
def test_who_may_only_look_sees_no_buttons_that_order(tabs: Tabs, read_only: bool) -> None:
    tabs.page.home.submit("true", name="seen", hold=True)
    tab = tabs.enter(read_only=read_only)
    expect(tab.locator(".row", has_text="seen")).to_be_visible()
    expect(tab.get_by_role("button", name="Drain")).to_have_count(0)
    expect(tab.get_by_role("button", name="Pause the queue")).to_have_count(0)
    expect(tab.locator(".rows input:visible")).to_have_count(0)
    tabs.go(tab, "#/job/1")
    expect(tab.locator("h1")).to_contain_text("seen")
    expect(tab.get_by_role("button", name="Cancel")).to_have_count(0)
