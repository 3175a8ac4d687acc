"""Logs of many trainings, as large as wanted, in the forms that frameworks print.

Each form is a generator of lines with their ends, from a seed; all that are metrics are called
`train_loss`, or have it in their name, so that what is found can be counted with `grep`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

Lines = Iterator[str | bytes]
_BATCHES = 1000


def _pytorch(chance: random.Random) -> Lines:
    for n in count(1):
        done, epoch = n % 938, n // 938
        part = f"[{done * 64}/60000 ({100 * done // 938}%)]"
        yield f"Train Epoch: {epoch} {part}\ttrain_loss: {chance.random() * 3:.6f}\n"


def _imagenet(chance: random.Random) -> Lines:
    for n in count():
        epoch, done, loss = n // 5005, n % 5005, chance.random() * 7
        took = f"Time  {chance.random():.3f} ( {chance.random():.3f})\tData  0.001 ( 0.010)"
        hits = f"Acc@1 {loss * 9:6.2f} ({loss * 8:6.2f})\tAcc@5 {loss * 12:6.2f} ({loss * 11:6.2f})"
        yield f"Epoch: [{epoch}][{done:4d}/5005]\t{took}\ttrain_loss {loss:.4e} (6.9e+00)\t{hits}\n"


def _keras(chance: random.Random) -> Lines:
    for n in count():
        done, loss = n % _BATCHES, chance.random()
        if done == 0:
            yield f"Epoch {n // _BATCHES + 1}/50\n"
        full = done * 20 // _BATCHES
        bar = f"\x1b[32m{'━' * full}\x1b[0m\x1b[37m{'━' * (20 - full)}\x1b[0m"
        bar += f" \x1b[1m{done % 60}s\x1b[0m"
        said = f"accuracy: {1 - loss:.4f} - train_loss: {loss:.4f}"
        yield f"\x1b[1m{done:4d}/1000\x1b[0m {bar} 2ms/step - {said}{chr(8) * 71}\r"


def _rich(chance: random.Random) -> Lines:
    for n in count():
        done, loss = n % _BATCHES, chance.random()
        full = done * 39 // _BATCHES
        bar = f"\x1b[38;2;249;38;114m{'━' * full}╸\x1b[0m\x1b[38;5;237m{'━' * (39 - full)}\x1b[0m"
        bar += f" \x1b[36m{done}/{_BATCHES}\x1b[0m \x1b[33m0:00:{done % 60:02d}\x1b[0m"
        yield f"\r\x1b[2KEpoch {n // _BATCHES} {bar} train_loss: {loss:.3f} acc: {1 - loss:.3f}"


def _hf_trainer(chance: random.Random) -> Lines:
    for n in count():
        loss = chance.random() * 10
        rest = f"'learning_rate': {loss / 1e5:.16g}, 'epoch': {n / 10_000:.2f}"
        yield f"{{'train_loss': {loss:.4f}, 'grad_norm': {loss * 3:.16g}, {rest}}}\n"


def _json_lines(chance: random.Random) -> Lines:
    for n in count():
        loss = chance.random() * 10
        yield f'{{"step": {n}, "train_loss": {loss!r}, "lr": {loss / 1e4!r}, "phase": "train"}}\n'


def _lightning(chance: random.Random) -> Lines:
    for n in count():
        done, loss = n // 2 % _BATCHES + 1, chance.random() * 5
        bar = f"{done / 10:3.0f}%|{'█' * (done // 100):10s}| {done}/{_BATCHES}"
        took = f"00:{done // 40:02d}<00:{25 - done // 40:02d}, {30 + loss:.2f}it/s"
        yield f"\rEpoch {n // 2 // _BATCHES}: {bar} [{took}, v_num=3, train_loss={loss:.3f}]"


def _tqdm_nested(chance: random.Random) -> Lines:
    for n in count():
        done, epoch, loss = n % _BATCHES, n // _BATCHES, chance.random()
        if done % 50 == 0:
            outer = f"{epoch % 90:3d}%|{'#' * (epoch % 10):10s}| {epoch}/90"
            yield f"\rtrain: {outer} [10:{epoch % 60:02d}<?, ?s/it]\n"
        bar = f"{done // 10:3d}%|{'#' * (done // 100):10s}| {done}/1000"
        rate = f"00:{done // 40:02d}<00:15, {40 * loss:.2f}it/s"
        yield f"\repoch {epoch}: {bar} [{rate}, train_loss={loss:.4f}, lr={loss / 1e3:.2e}]\x1b[A"


def _logging(chance: random.Random) -> Lines:
    for n in count():
        loss = chance.random()
        at = f"2026-11-18 {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d},{n % 1000:03d}"
        if n % 3:
            said = f"train_loss={loss:.4f}, lr={loss / 1000:.3e}, grad={5 * loss:.3f}"
            yield f"{at} - INFO - trainer - epoch {n // 1000} step {n}: {said}\n"
        else:
            yield f"{at} - INFO - data - worker {n % 8} has loaded shard {n} in {loss:.2f}s\n"


def _fairseq(chance: random.Random) -> Lines:
    for n in count():
        loss = chance.random() * 9
        at = f"2026-11-18 07:{n // 60 % 60:02d}:{n % 60:02d} | INFO | train_inner"
        more = f"nll_loss={loss * 0.9:.3f}, ppl={loss * 20:.2f}, wps={loss * 9e3:.1f}, bsz=512"
        rest = f"num_updates={n}, lr={loss / 1e4:.6g}, gnorm={loss / 3:.3f}, wall={n}"
        done = f"epoch {n // 2983 + 1:03d}: {n % 2983:6d} / 2983"
        yield f"{at} | {done} train_loss={loss:.3f}, {more}, {rest}\n"


def _word_model(chance: random.Random) -> Lines:
    for n in count():
        loss = chance.random() * 9
        done = f"{n * 200 % 2983:5d}/ 2983 batches"
        rest = (
            f"lr 20.00 | ms/batch {loss * 3:5.2f} | train_loss {loss:5.2f} | ppl {loss * 99:8.2f}"
        )
        yield f"| epoch {n // 15:3d} | {done} | {rest}\n"


def _detectron(chance: random.Random) -> Lines:
    for n in count():
        loss = chance.random() * 2
        at = f"[11/18 07:{n // 60 % 60:02d}:{n % 60:02d} d2.utils.events]:  eta: 0:03:{n % 60:02d}"
        parts = (
            f"loss_cls: {loss / 2:.4g}  loss_box_reg: {loss / 3:.4g}  loss_rpn_loc: {loss / 99:.4g}"
        )
        rest = f"time: {loss / 4:.4f}  data_time: 0.0{n % 1000:03d}  lr: {loss / 1e3:.5g}"
        yield f"{at}  iter: {20 * n + 19}  train_loss: {loss:.4g}  {parts}  {rest}  max_mem: 433M\n"


def _tables(chance: random.Random) -> Lines:
    for n in count(1):
        rule = "-" * 41 + "\n"
        rows = {"ep_rew_mean": chance.random() * 200, "fps": 900 + n % 99, "iterations": n,
                "total_timesteps": 2048 * n, "approx_kl": chance.random() / 99,
                "train_loss": chance.random() * 30, "value_loss": chance.random() * 60}  # fmt: skip
        yield rule
        for name, value in rows.items():
            yield f"|    {name:20s} | {value:<11.4g} |\n"


def _boosting(chance: random.Random) -> Lines:
    for n in count():
        loss = chance.random()
        yield f"[{n}]\ttrain_loss:{loss:.5f}\teval-rmse:{loss * 1.1:.5f}\n"


def _short_lines(chance: random.Random) -> Lines:
    for n in count():
        yield f"{n:8d} train_loss={chance.random():.6f} ok\n"


def _warnings(chance: random.Random) -> Lines:
    for n in count():
        kind = n % 10
        loss = chance.random()
        if kind < 3:
            yield f"step {n} train_loss={loss:.4f}\n"
        elif kind < 6:
            at = f"/opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py:{n % 2000}"
            yield f"{at}: UserWarning: a hook of layer {n % 48} is deprecated since 2.{n % 7}\n"
            yield "  warnings.warn(message, stacklevel=2)\n"
        elif kind < 8:
            at = f"W1118 07:{n // 60 % 60:02d}:{n % 60:02d}.{n % 10**6:06d} {4000 + n % 8}"
            yield f"[rank{n % 8}]:{at} torch/distributed/run.py:{n % 900}] retries {n % 4} of 5\n"
        else:
            yield f'  File "/home/me/train/data_{n % 64}.py", line {n % 500}, in fetch\n'
            yield f"    raise Unreadable(f'shard {{name}} of {{count}}')  # {loss:.3f}\n"


def _prose(chance: random.Random) -> Lines:
    words = ("loading", "the", "weights", "of", "layer", "attention", "output", "dense", "kernel")
    while True:
        yield " ".join(chance.choices(words, k=60)) + "\n"


def _binary(chance: random.Random) -> Lines:
    while True:
        yield chance.randbytes(1 << 16)


def _columns(chance: random.Random) -> Lines:
    for n in count():
        yield f"{n},{chance.random():.6f},{chance.random():.6f},{chance.random():.6f}\n"


FORMS: dict[str, Callable[[random.Random], Lines]] = {
    "PyTorch prints": _pytorch,
    "ImageNet meters": _imagenet,
    "Keras bars": _keras,
    "Rich bars": _rich,
    "HF Trainer dicts": _hf_trainer,
    "JSON lines": _json_lines,
    "Lightning bars": _lightning,
    "nested tqdm": _tqdm_nested,
    "logging lines": _logging,
    "fairseq": _fairseq,
    "loss | ppl": _word_model,
    "Detectron lines": _detectron,
    "SB3 tables": _tables,
    "XGBoost": _boosting,
    "33-byte lines": _short_lines,
    "warnings mixed in": _warnings,
    "columns of numbers": _columns,
    "text without numbers": _prose,
    "binary": _binary,
}


def write_log(path: Path, form: str, size: int) -> int:
    """Write a log of about that size; how many bytes it has."""
    lines = FORMS[form](random.Random(7))
    with path.open("wb") as file:
        while file.tell() < size:
            part = [next(lines) for _ in range(1 if form == "binary" else 1000)]
            file.write(b"".join(one.encode() if isinstance(one, str) else one for one in part))
        return file.tell()
