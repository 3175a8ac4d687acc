"""Pictures of the page for the docs, from a real run: `make screenshots`.

A Stoker of its own in a temporary directory runs real jobs on the GPUs of the stand-in NVIDIA
driver (see docs/gpus.md), and a real browser looks at its page. Nothing is left behind.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import Browser, Page, sync_playwright  # noqa: E402

from fakegpu.build import build, has_compiler  # noqa: E402
from fakegpu.driver import FakeDriver  # noqa: E402
from stoker_home import StokerHome  # noqa: E402
from waiting import eventually  # noqa: E402

AT_MOST_S = 240.0
DESKTOP = {"width": 1360, "height": 860}
PHONE = {"width": 360, "height": 740}

# A training that uses a GPU, says how it gets on, and is done after a while.
TRAIN = """
import argparse, math, os, subprocess, sys, time
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--minutes", type=float, default=1.0)
parser.add_argument("--memory", default="6G")
args = parser.parse_args()
seconds = args.minutes * 60 * (0.5 + 16 / args.batch if args.batch <= 64 else 1)
gpus = len(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))
load = subprocess.Popen(["fakegpu-train", "--peak", args.memory, "--seconds", str(seconds),
                         "--ramp", "2", "--use", str(55 + args.batch // 4), "--gpus", str(gpus)])
began, step = time.monotonic(), 0
while (t := time.monotonic() - began) < seconds:
    step += 1
    loss = 2.3 * math.exp(-args.lr * step / 20) + 0.02 * math.sin(step)
    if args.lr * 32 / args.batch > 0.5 and t > seconds / 2:
        load.kill()
        sys.exit("\\x1b[31mthe loss is not a number\\x1b[0m")
    print(f"step {step:5d}  loss \\x1b[32m{loss:.4f}\\x1b[0m  lr {args.lr:g}", flush=True)
    time.sleep(0.1)
print("\\x1b[1mdone\\x1b[0m")
load.wait()
"""


class Scene:
    """The machine that is looked at."""

    def __init__(self, root: Path) -> None:
        built = build(root / "built")
        self.home = StokerHome(root)
        self.driver = FakeDriver.create(root / "gpus")
        for _ in range(4):
            self.driver.add_device(24 * 1024, name="NVIDIA Stand-In 24GB")
        self.home.env |= self.driver.environment(built, 1)
        self.home.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{self.home.env['PATH']}"
        (self.home.work / "train.py").write_text(TRAIN, encoding="utf-8")
        self.stranger: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Let some things have happened, some go on, and some wait."""
        home = self.home
        home.stoker("daemon", "start")
        eventually(lambda: len(home.call("gpus")["gpus"]) == 4, "the GPUs are seen")
        self._weather()
        self._queue("warm-up", "--minutes", "0.1", gpus=2)
        for lr in ("0.3", "0.1", "1.0"):
            self._queue(f"baseline-{lr}", "--lr", lr, "--minutes", "0.15", group="baselines")
        home.stoker("sweep", "lr=0.3,0.1,0.03,0.01", "batch=16,32,64", "--name", "lr-search",
                    "--mem", "7G", "--", "python", "train.py", "--lr", "{lr}", "--batch",
                    "{batch}", "--minutes", "0.12")  # fmt: skip
        home.until_final(*range(1, 17))
        self.stranger = subprocess.Popen(["sleep", "1000"])
        self.driver.add_process(3, self.stranger.pid, 5_300)
        eventually(lambda: home.call("gpus")["gpus"][3]["state"] == "foreign", "it is seen")
        self._queue("resnet-large", "--minutes", "9", "--memory", "17G", "--batch", "128", gpus=2,
                    time_limit_ms=1_200_000)  # fmt: skip
        self._queue("fine-tune-a", "--minutes", "8", "--memory", "8G", mem_mib=10 * 1024,
                    time_limit_ms=900_000)  # fmt: skip
        self._queue("fine-tune-b", "--minutes", "7", "--memory", "6G", mem_mib=8 * 1024,
                    time_limit_ms=900_000)  # fmt: skip
        for number in range(6):
            self._queue(f"ablation-{number}", "--minutes", "2", group="ablations",
                        time_limit_ms=240_000)  # fmt: skip
        self._queue("everything", "--minutes", "5", gpus=4, priority=5)
        self._queue("not-yet", hold=True)
        eventually(lambda: home.call("status")["counts"]["running"] >= 3, "they run")

    def _queue(self, name: str, *words: str, **fields: Any) -> None:
        job = {"argv": ["python", "train.py", *words], "name": name, **fields}
        self.home.submit_all([job], user=getpass.getuser())

    def _weather(self) -> None:
        for number, (warm, power) in enumerate(((71, 264.0), (68, 251.0), (59, 187.0), (44, 92.0))):
            self.driver.set_reading(number, temperature_c=warm, power_w=power)

    def close(self) -> None:
        """Leave nothing."""
        if self.stranger is not None:
            self.stranger.kill()
            self.stranger.wait()
        self.home.clean_up()


@contextmanager
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        sys.exit("screenshots: no chromium; `make screenshots` installs it where it may")
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield found
        finally:
            found.close()


def entered(found: Browser, home: StokerHome, viewport: Any, scheme: Any) -> Page:
    """A tab that was let in."""
    context = found.new_context(viewport=viewport, color_scheme=scheme, device_scale_factor=1.5)
    tab = context.new_page()
    tab.goto(home.stoker("web", "--no-open", "--port", "4011").strip())
    tab.wait_for_selector("#link[data-state=live]")
    return tab


def taken(tab: Page, view: str, name: str, ready: Callable[[Page], object]) -> None:
    """One picture, when the view has what it should show."""
    tab.evaluate("(to) => { location.hash = to; }", view)
    ready(tab)
    time.sleep(1.2)  # for lines that are drawn as readings come in
    tab.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png")


def pointed_at(tab: Page, across: float, down: float) -> None:
    """Let the first chart say what is at a place, in parts of its width and height."""
    over = tab.locator(".curves .u-over").first
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    tab.wait_for_selector("#tip:not([hidden])")


def pictures(scene: Scene) -> None:
    """All of them."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with browser() as found:
        tab = entered(found, scene.home, DESKTOP, "light")
        tab.wait_for_function("() => document.querySelectorAll('.row .c-when').length > 5")
        taken(tab, "#/", "now", lambda t: t.wait_for_selector(".c-when:has-text('in ')"))
        taken(tab, "#/timeline", "timeline", lambda t: t.wait_for_selector(".tbar.ahead, .tcount"))
        taken(tab, "#/job/17", "job", lambda t: t.wait_for_selector(".jobplot path[d*=L]"))
        taken(tab, "#/sweep/lr-search", "sweep", lambda t: t.wait_for_selector(".heat td"))
        card = tab.locator(".curves")
        pointed_at(tab, 0.45, 0.5)
        card.screenshot(path=IMAGES / "curves.png")
        print("docs/images/curves.png")
        seen = ".curves canvas"
        taken(tab, "#/compare/5,8,11,14", "compare", lambda t: t.wait_for_selector(seen))

        def previewed(tab: Page) -> None:
            tab.get_by_label("Parameters, one a line").fill("lr=0.1,0.01\nbatch=range(16,65,16)")
            tab.get_by_label("Command").fill("python train.py --lr {lr} --batch {batch}")
            tab.wait_for_selector(".preview td")

        taken(tab, "#/submit/sweep", "submit", previewed)
        dark = entered(found, scene.home, DESKTOP, "dark")
        taken(dark, "#/", "now-dark", lambda t: t.wait_for_selector(".c-when:has-text('in ')"))
        phone = entered(found, scene.home, PHONE, "light")
        taken(phone, "#/", "phone", lambda t: t.wait_for_selector(".gpu li a"))


def main() -> int:
    """Make the pictures."""
    if not has_compiler():
        sys.exit("screenshots: no C compiler for the stand-in driver")
    with tempfile.TemporaryDirectory(prefix="stoker-pictures-") as folder:
        scene = Scene(Path(folder))
        try:
            scene.run()
            pictures(scene)
        finally:
            scene.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
