"""The live view on GPUs that a driver measures: use over time, memory, strangers, faults."""

from __future__ import annotations

import subprocess

from fakegpu.driver import GPU_IS_LOST
from gpu_box import Box
from top.live_view import LiveView, drive
from waiting import eventually


def test_use_memory_temperature_power_and_faults_are_shown_as_they_change(box: Box) -> None:
    box.driver.set_reading(1, utilisation=83, temperature_c=71, power_w=212.5)

    async def scenario(view: LiveView) -> None:
        await view.until_text("71°C 212W free")
        (line,) = [line for line in view.lines if line.startswith("1 ")]
        assert "Stand-In" in line and "83%" in line
        box.driver.set_reading(1, utilisation=7, temperature_c=40, power_w=60)
        await view.until_text("40°C  60W free")
        await view.until(lambda: any(bar in view.lines[3] for bar in "▂▃▄▅▆▇"), "use over time")
        box.driver.fault(1, GPU_IS_LOST)
        await view.until_text("fault")

    drive(box, scenario)


def test_what_our_jobs_use_and_what_others_use_are_told_apart(box: Box) -> None:
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        box.driver.add_process(1, stranger.pid, 6 * 1024)
        job_id = box.train("--peak", "12G", "--seconds", "100000", name="ours", on=["0"])
        box.until_pid(job_id)
        eventually(lambda: (box.gpus()["0"]["ours_mib"] or 0) > 10_000, "it has its memory")

        async def scenario(view: LiveView) -> None:
            await view.until_text("1 ours")
            await view.until_text("other: ")
            assert "in use" in view.lines[3] and view.jobs[0].split()[3] == "0"
            ours, others = view.lines[2:4]
            assert "█" in ours and "▒" not in ours
            assert "▒" in others and "█" not in others
            assert f"sleep 1000 {stranger.pid}" in others

        drive(box, scenario, columns=200)
        once = box.stoker("top", "--once")
        assert "█ours ▒others" in once and "in use" in once
    finally:
        stranger.kill()
        stranger.wait()
