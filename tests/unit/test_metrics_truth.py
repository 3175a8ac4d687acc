"""What is found in lines of the forms that trainings print: all metrics, and nothing else."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.metrics.extractor import Extractor
from stoker.metrics.series import Series

Found = dict[str, tuple[float | None, float]]

NOTHING: Found = {}


def at(step: float | None, **values: float) -> Found:
    return {name: (step, value) for name, value in values.items()}


def named(step: float | None, values: dict[str, float]) -> Found:
    return {name: (step, value) for name, value in values.items()}


def extracted(line: str) -> Found:
    extractor = Extractor()
    batches = [extractor.feed(line.encode() + b"\n"), extractor.end()]
    found: dict[str, list[tuple[float | None, float]]] = {}
    for batch in batches:
        for name, points in batch:
            found.setdefault(name, []).extend(points)
    assert all(len(points) == 1 for points in found.values()), found
    return {
        name: (None if step is None else round(step, 6), value)
        for name, [(step, value)] in found.items()
    }


METRICS: list[tuple[str, Found]] = [
    # Prints of one's own.
    ("loss=0.31", at(None, loss=0.31)),
    ("loss = 0.31", at(None, loss=0.31)),
    ("loss: 0.31", at(None, loss=0.31)),
    ("loss 0.31", at(None, loss=0.31)),
    ("val_loss: 0.31", at(None, val_loss=0.31)),
    ("val loss 0.31", at(None, val_loss=0.31)),
    ("Validation Loss: 0.31", at(None, Validation_Loss=0.31)),
    ("loss:0.31,acc:0.9", at(None, loss=0.31, acc=0.9)),
    ("loss: 3.1e-2", at(None, loss=0.031)),
    ("loss: 1E+2", at(None, loss=100)),
    ("loss: -3", at(None, loss=-3)),
    ("loss: .5", at(None, loss=0.5)),
    ("loss: tensor(0.31, device='cuda:0')", at(None, loss=0.31)),
    ("loss: tensor(0.31, grad_fn=<MeanBackward0>)", at(None, loss=0.31)),
    ("loss=np.float64(0.25)", at(None, loss=0.25)),
    ("accuracy: [0.75]", at(None, accuracy=0.75)),
    ("accuracy: 85.2%", at(None, accuracy=85.2)),
    ("Accuracy: 50/64 (78%)", at(None, Accuracy=50 / 64)),
    ("step 7 loss=0.31", at(7, loss=0.31)),
    ("step: 7, loss: 0.31", at(7, loss=0.31)),
    ("[step 7] loss 0.31", at(7, loss=0.31)),
    ("iter 7: loss 0.31", at(7, loss=0.31)),
    ("Iteration 7, loss = 0.31", at(7, loss=0.31)),
    ("epoch 3 | loss 0.31", at(3, loss=0.31)),
    ("Epoch: 3, Loss: 0.31", at(3, Loss=0.31)),
    ("Epoch 003: train_loss=0.31 val_loss=0.4", at(3, train_loss=0.31, val_loss=0.4)),
    ("epoch=3 step=120 loss=0.31", at(120, loss=0.31)),
    ("global_step: 120 reward: 12", at(120, reward=12)),
    ("Episode 10 reward: -21.5 epsilon: 0.1", at(10, reward=-21.5, epsilon=0.1)),
    ("final loss: 0.31", at(None, final_loss=0.31)),
    ("Best val accuracy: 0.91", at(None, val_accuracy=0.91)),
    ("test error 0.12", at(None, test_error=0.12)),
    ("train/loss: 0.31", named(None, {"train/loss": 0.31})),
    ("loss/train=0.31", named(None, {"loss/train": 0.31})),
    ("metrics.val.acc=0.5", named(None, {"metrics.val.acc": 0.5})),
    ("F1: 0.81 top1: 0.7 top5: 0.9", at(None, F1=0.81, top1=0.7, top5=0.9)),
    ("recall@10: 0.4", named(None, {"recall@10": 0.4})),
    ("latency: 3.2 ms", at(None, latency=3.2)),
    ("Step 2,000 loss=0.31", at(2000, loss=0.31)),
    ("Step 2,000/10,000, epoch 3, reward: 1,234,567", at(3.2, reward=1234567)),
    ("reward: 1,234, loss: 0.31", at(None, reward=1234, loss=0.31)),
    ("x=01,123 loss=0.31", at(None, loss=0.31)),
    # logging, absl, loguru, structlog.
    ("2026-11-18 07:00:01,123 - INFO - trainer - step 5: loss=0.3", at(5, loss=0.3)),
    ("INFO:trainer:loss=0.3", at(None, loss=0.3)),
    ("I1118 07:00:01.123456 139 train.py:42] loss: 0.3", at(None, loss=0.3)),
    ("2026-11-18 07:00:01.123 | INFO     | __main__:fit:31 - loss 0.3", at(None, loss=0.3)),
    ("[07:00:01] INFO     loss: 0.3", at(None, loss=0.3)),
    ("[2026-11-18 07:00:01,123][trainer][INFO] - epoch 2, loss: 0.3", at(2, loss=0.3)),
    ("11/18/2026 07:00:01 - INFO - __main__ -   perplexity = 12.5", at(None, perplexity=12.5)),
    ("[rank0]: loss=0.3", at(None, loss=0.3)),
    ("(worker pid=4121) loss: 0.3", at(None, loss=0.3)),
    # PyTorch's examples.
    ("Train Epoch: 2 [640/6400 (10%)]\tLoss: 0.31", at(2.1, Loss=0.31)),
    ("Test set: Average loss: 0.0543, Accuracy: 98/100 (98%)",
     at(None, Average_loss=0.0543, Accuracy=0.98)),
    ("Epoch [2/5], Step [100/200], Loss: 0.25", at(1.5, Loss=0.25)),
    ("[2,  2000] loss: 1.234", at(None, loss=1.234)),
    ("Epoch: [1][ 10/100]\tTime  0.1 ( 0.2)\tData  0.0 ( 0.1)\tLoss 6.9e+00 (7.0e+00)\t"
     "Acc@1   0.5 (  0.4)", named(1.1, {"Loss": 6.9, "Acc@1": 0.5})),
    ("| epoch   2 |   200/ 2000 batches | lr 20.00 | ms/batch 12.3 | loss  7.62 | ppl  2034.5",
     at(2.1, lr=20, loss=7.62, ppl=2034.5)),
    ("[1/5][50/100]\tLoss_D: 0.5\tLoss_G: 1.2\tD(x): 0.63",
     at(1.5, Loss_D=0.5, Loss_G=1.2, D=0.63)),
    ("Training loss: 0.31, Validation loss: 0.4",
     at(None, Training_loss=0.31, Validation_loss=0.4)),
    ("step 250: train loss 2.34, val loss 2.45", at(250, train_loss=2.34, val_loss=2.45)),
    ("iter 10: loss 2.3012, time 123.45ms, mfu 12.34%", at(10, loss=2.3012)),
    # Words that say of which part of a training the metrics are.
    ("train Loss: 0.1 Acc: 0.99", at(None, train_Loss=0.1, train_Acc=0.99)),
    ("val Loss: 0.9 Acc: 0.55", at(None, val_Loss=0.9, val_Acc=0.55)),
    ("epoch 2: train loss 0.1 acc 0.9 lr 0.01 val loss 0.4 acc 0.8",
     at(2, train_loss=0.1, train_acc=0.9, lr=0.01, val_loss=0.4, val_acc=0.8)),
    ("loss 0.1 val loss 0.4 acc 0.8", at(None, loss=0.1, val_loss=0.4, acc=0.8)),
    ("train: loss=0.5 - val: loss=0.9", at(None, train_loss=0.5, val_loss=0.9)),
    ("train: loss 0.5 acc 0.6 | valid: loss 0.9 acc 0.4",
     at(None, train_loss=0.5, train_acc=0.6, valid_loss=0.9, valid_acc=0.4)),
    ("Epoch 3 Test: [ 10/100]\tLoss 1.5 (1.6)\tAcc@1 70.0 (71.0)",
     named(3.1, {"Test_Loss": 1.5, "Test_Acc@1": 70})),
    ("val: {'loss': 0.5, 'f1': 0.3}", at(None, val_loss=0.5, val_f1=0.3)),
    ("val:  45%|####      | 45/100 [00:12<00:15, 3.5it/s, loss=0.3]", at(45, val_loss=0.3)),
    ("train: val_loss=0.5 loss=0.9", at(None, val_loss=0.5, train_loss=0.9)),
    # Two values of one name.
    ("loss=0.5 top1=0.1 | loss=0.9 top1=0.2 | loss=0.7 loss_2=0.3",
     at(None, loss=0.5, top1=0.1, loss_3=0.9, top1_2=0.2, loss_4=0.7, loss_2=0.3)),
    # Hugging Face.
    ("{'loss': 0.5, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 1.0}",
     at(1, loss=0.5, grad_norm=1.25, learning_rate=4.9e-5)),
    ("{'loss': '0.5', 'epoch': '1.5'}", at(1.5, loss=0.5)),
    ("{'eval_loss': 0.4, 'eval_accuracy': 0.9, 'epoch': 2.0}",
     at(2, eval_loss=0.4, eval_accuracy=0.9)),
    (" 66%|######6   | 20/30 [00:01<00:01, 9.5it/s]{'loss': 0.4, 'epoch': 2.0}", at(2, loss=0.4)),
    ('{"loss": 0.4, "epoch": 0.67} 66%|######6   | 20/30 [00:01<00:01, 9.5it/s]',
     at(0.67, loss=0.4)),
    ("  eval_f1 = 0.81", at(None, eval_f1=0.81)),
    ("  train_loss               =     0.5621", at(None, train_loss=0.5621)),
    ("{'loss': nan, 'epoch': 1.0}", at(1, loss=float("nan"))),
    ("TrainOutput(global_step=12, training_loss=0.5)", at(12, training_loss=0.5)),
    ("epoch 1: {'accuracy': 0.84, 'f1': 0.88}", at(1, accuracy=0.84, f1=0.88)),
    # Keras.
    ("Epoch 3/10 - loss: 0.3 - acc: 0.8", at(3, loss=0.3, acc=0.8)),
    ("313/313 - 1s - 3ms/step - accuracy: 0.97 - loss: 0.1", at(313, accuracy=0.97, loss=0.1)),
    ("Test accuracy: 0.9761", at(None, Test_accuracy=0.9761)),
    ("Test loss: 0.0301", at(None, Test_loss=0.0301)),
    # Lightning.
    ("Epoch 1:  50%|█████     | 4/8 [00:00<00:00, 36.46it/s, v_num=3, train_loss=4.740]",
     at(1.5, train_loss=4.74)),
    ("Epoch 1: 100%|██████████| 8/8 [00:00<00:00, 36.46it/s, loss=0.3, val_acc=0.75]",
     at(2, loss=0.3, val_acc=0.75)),
    ("│         test_acc          │    0.9876999855041504     │",
     at(None, test_acc=0.9876999855041504)),
    # tqdm.
    (" 45%|####5     | 450/1000 [00:12<00:15, 36.5it/s, loss=0.312]", at(450, loss=0.312)),
    ("Epoch 2: 10%|█         | 10/100 [00:12<01:15, 1.2s/it, loss=0.3, lr=1e-4]",
     at(2.1, loss=0.3, lr=1e-4)),
    ("loss=0.3:  10%|#         | 10/100 [00:12<01:15, 1.2s/it]", at(10, loss=0.3)),
    # fairseq.
    ("2026-11-18 07:00:01 | INFO | train_inner | epoch 001:    100 / 2000 loss=9.1, ppl=55.4, "
     "num_updates=100, lr=1.2e-05", at(100, loss=9.1, ppl=55.4, lr=1.2e-5)),
    ("epoch 002 | valid on 'valid' subset | loss 5.1 | nll_loss 4.2 | ppl 18.3 | num_updates 400",
     at(400, loss=5.1, nll_loss=4.2, ppl=18.3)),
    # Megatron.
    (" iteration       10/    1000 | consumed samples:         5120 | elapsed time per iteration "
     "(ms): 300.1 | learning rate: 1.500E-04 | global batch size:   512 | lm loss: 6.5E+00 | loss "
     "scale: 1.0 | grad norm: 1.2 | number of skipped iterations:   0 | number of nan iterations: "
     "  0 |",
     at(10, consumed_samples=5120, learning_rate=1.5e-4, lm_loss=6.5, loss_scale=1, grad_norm=1.2,
        skipped_iterations=0, nan_iterations=0)),
    ("super step 7: loss 0.5", at(7, loss=0.5)),
    ("time per step: 300.1, loss: 0.5", at(None, loss=0.5)),
    ("rank 0 | current epoch: 3 | train loss: 0.5", at(3, train_loss=0.5)),
    # OpenMMLab and Detectron2.
    ("11/18 07:00:01 - mmengine - INFO - Epoch(train) [2][50/100]  lr: 1.0e-02  eta: 0:00:25  "
     "time: 0.010  data_time: 0.001  memory: 512  loss: 11.47",
     at(2.5, lr=0.01, data_time=0.001, memory=512, loss=11.47)),
    ("11/18 07:00:01 - mmengine - INFO - Iter(train) [ 100/5000]  lr: 1.0e-02  loss: 1.47",
     at(100, lr=0.01, loss=1.47)),
    ("2026-11-18 07:00:01,015 - mmdet - INFO - Epoch [3][50/100]\tlr: 0.02, eta: 1 day, 16:44:26, "
     "time: 1.4, s0.loss_cls: 0.48, s0.acc: 92.1, loss: 3.01",
     named(3.5, {"lr": 0.02, "s0.loss_cls": 0.48, "s0.acc": 92.1, "loss": 3.01})),
    ("[11/18 07:00:01 d2.utils.events]:  eta: 0:03:35  iter: 19  total_loss: 1.36  loss_cls: 0.65  "
     "time: 0.3636  lr: 3.8e-06  max_mem: 433M",
     at(19, total_loss=1.36, loss_cls=0.65, lr=3.8e-6)),
    # timm, MoCo and others.
    ("Train: 1 [  50/100 ( 50%)]  Loss: 3.24 (3.5)  Time: 0.15s,  100.2/s  LR: 1.0e-05",
     at(1.5, Loss=3.24, LR=1e-5)),
    ('{"train_lr": 8.1e-05, "train_loss": 3.2, "test_acc1": 78.8, "epoch": 249, '
     '"n_parameters": 11590840}', at(249, train_lr=8.1e-5, train_loss=3.2, test_acc1=78.8)),
    ('json_stats: {"accuracy_cls": 1.0, "eta": "0:21:51", "iter": 55080, "loss": 0.024, '
     '"time": 0.26}', at(55080, accuracy_cls=1, loss=0.024)),
    # Tables of Stable Baselines.
    ("|    ep_rew_mean          | 21.3        |", at(None, ep_rew_mean=21.3)),
    ("|    entropy_loss         | -14.2       |", at(None, entropy_loss=-14.2)),
    ("|    approx_kl            | 0.010918302 |", at(None, approx_kl=0.010918302)),
    # Boosting and scikit-learn.
    ("[10]\ttrain-rmse:0.11\teval-rmse:0.21", named(10, {"train-rmse": 0.11, "eval-rmse": 0.21})),
    ("[10]\ttraining's binary_logloss: 0.5\tvalid_1's auc: 0.8",
     at(10, training_binary_logloss=0.5, valid_1_auc=0.8)),
    ("10:\tlearn: 0.68\ttest: 0.67\ttotal: 50ms\tremaining: 4.9s", at(10, learn=0.68, test=0.67)),
    ("Iteration 1, loss = 0.69314718", at(1, loss=0.69314718)),
    ("Validation score: 0.912", at(None, Validation_score=0.912)),
    # JSON lines.
    ('{"step": 3, "loss": 0.5}', at(3, loss=0.5)),
    ('{"loss": 0.5, "iteration": 12, "phase": "train"}', at(12, loss=0.5)),
    ('{"coco/bbox_mAP": 0.22, "step": 1}', named(1, {"coco/bbox_mAP": 0.22})),
    ('{"epoch": 2, "val": {"loss": 0.5}}', named(2, {"val/loss": 0.5})),
    ('{"epoch":0,"train":{"loss":0.1},"val":{"loss":0.9}}',
     named(0, {"train/loss": 0.1, "val/loss": 0.9})),
    ("{'step': 7, 'train': {'loss': 0.1, 'top1': 0.5}, 'val': {'a': {'top1': 0.4}}, 'lr': 0.2}",
     named(7, {"train/loss": 0.1, "train/top1": 0.5, "val/a/top1": 0.4, "lr": 0.2})),
    ('{"layer1": {"loss": 0.1}, "layer2": {"loss": 0.2}}',
     named(None, {"layer1/loss": 0.1, "layer2/loss": 0.2})),
    ('{"a": {"b": {"c": {"d": {"e": {"loss": 0.1}}}}}, "loss": 0.2}',
     named(None, {"a/b/c/d/e/loss": 0.1, "loss": 0.2})),
    ('it\'s {"note": "a { in \\" a text", "val": {"s": "}", "loss": 0.1}, "loss": 0.2}',
     named(None, {"val/loss": 0.1, "loss": 0.2})),
    ('{"step": 3, "metrics": {"loss": 0.5, "val": {"loss": 0.9}}}',
     named(3, {"loss": 0.5, "val/loss": 0.9})),
    ('{"loss": NaN, "step": 4}', at(4, loss=float("nan"))),
    ('{"loss": -Infinity, "step": 4}', at(4, loss=float("-inf"))),
]  # fmt: skip

NO_METRICS = [
    # Times, dates, rates and sizes.
    "started at 12:30:45", "date: 2026-11-18", "date: 11/18/2026", "took: 12.5s", "took: 12.5 s",
    "runtime = 0:00:12.34", "ETA: 0s", "eta: 0:03:35", "ETA: 01:12:13", "elapsed: 3.2 min",
    "time: 0.3636", "Time  0.123 ( 0.234)", "12.5it/s", "speed 36.5 it/s", "size=1,234",
    "Downloaded: 3.2 MB", "model size: 450 MB", "max_mem: 433M", "memory: 3.5 GB",
    "100%|██████████| 10/10 [00:01<00:00, 9.9it/s]",
    "train:  45%|####      | 45/100 [00:12<?, ?s/it]",
    "Downloading model.bin:  45%|####      | 450M/1.0G [00:12<00:15, 36.5MB/s]",
    "Sanity Checking DataLoader 0:  50%|█████     | 1/2 [00:00<00:00, 57.43it/s]",
    # Versions and machines.
    "torch 2.1", "torch: 2.1", "torch==2.1.0", "PyTorch version: 2.1", "version: 1.2.3",
    "CUDA version: 12.4", "Python: 3.11", "cuda: 12.1", "using: 0 TPU cores", "rank: 0",
    "TPU available: False, using: 0 TPU cores", "device: cuda:0", "world_size: 8", "local_rank=3",
    "Using 8 GPUs", "num_gpus: 8", "pid: 4121", "port: 29500", "Driver Version: 550.54",
    "NCCL version 2.18.1+cuda12.1", "Listening on 127.0.0.1:8080", "http://host:8080/x",
    "GET http://host/x?loss=3&acc=4", "GET /x?name=a&loss=0.5 HTTP/1.1",
    # Programs, traces and paths.
    "train.py:42: UserWarning", '  File "/home/me/train.py", line 42, in main', "exit code: 1",
    "/opt/lib/python3.11/site-packages/torch/nn/modules/module.py:1501: FutureWarning: old",
    "  warnings.warn(message, stacklevel=2)", "RuntimeError: CUDA error 700", "error 404",
    "Saved to runs/lr=0.1/bs=32", "saving ckpt/epoch-val_loss=0.31.ckpt", "sha=12ab34",
    "loading checkpoints/model_0.pth", "addr=0x7f12", "loss=0x1f", "errno: 28", "return 1",
    "W1118 07:00:01.123456 4121 torch/distributed/run.py:757] retries 3 of 5",
    # How a training was set up.
    "Namespace(lr=0.1, batch_size=32, epochs=10)",
    "Linear(in_features=10, out_features=5, bias=True)",
    "(0): Conv2d(3, 64, kernel_size=(7, 7), stride=(2, 2), bias=False)",
    "(dropout): Dropout(p=0.1, inplace=False)", "BatchNorm2d(64, eps=1e-05, momentum=0.1)",
    "TrainingArguments(learning_rate=5e-05, seed=42)",
    "batch_size: 32", "seed: 42", "num_workers=4",
    "max_epochs=3", "`Trainer.fit` stopped: `max_epochs=3` reached.", "Total params: 11689512",
    "number of parameters: 10.65M", "Trainable params: 11.2 M", "hidden_size: 768",
    '  "num_attention_heads": 12', "Seed set to 42", "vocab_size=50257", "Num examples = 1000",
    # Words.
    "loss: none", "loss=", "Epoch 3", "Epoch 3/10", "worker 3 has loaded shard 12 of the data",
    "info: nothing", "banana=split", "see chapter 3", "3 of 5 tests passed", "0.31", "1,0.5,0.25",
    "acc: 1,23", "acc: 1,234.5", "acc: [1,234]", "acc: 12:31:45,123",
    "val_loss improved from 0.52 to 0.31", "\x00\x01loss=3", "loss: " + "9" * 60,
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), METRICS, ids=[line[:60] for line, _ in METRICS])
def test_all_metrics_of_a_line_are_found_and_nothing_else(line: str, expected: Found) -> None:
    assert repr(sorted(extracted(line).items())) == repr(
        sorted(
            (name, (None if step is None else float(step), float(value)))
            for name, (step, value) in expected.items()
        )
    )


@pytest.mark.parametrize("line", NO_METRICS, ids=[repr(line)[:60] for line in NO_METRICS])
def test_what_is_no_metric_is_none(line: str) -> None:
    assert extracted(line) == NOTHING


def test_there_are_many_lines() -> None:
    assert len(METRICS) + len(NO_METRICS) >= 150


KNOWN = st.sampled_from([line for line, _ in METRICS] + NO_METRICS)
DIGITS = st.text("0123456789", min_size=1, max_size=5)


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    """Some lines again and again, with other numbers in them."""
    lines = []
    for line in draw(st.lists(KNOWN, min_size=1, max_size=4)):
        for _ in range(draw(st.integers(1, 9))):
            parts = re.split(r"(\d+)", line)
            parts[1::2] = [draw(DIGITS | st.just(part)) for part in parts[1::2]]
            lines.append("".join(parts))
    return draw(st.permutations(lines))


def in_one_piece(lines: list[str], cuts: list[int] | None = None) -> tuple[str, str]:
    """All points, and all series as they are kept."""
    extractor, points = Extractor(), dict[str, list[tuple[float | None, float]]]()
    output = "".join(f"{line}\n" for line in lines).encode()
    kept: dict[str, Series] = {}
    places = sorted({0, len(output), *(cut % (len(output) + 1) for cut in cuts or ())})
    pieces = [output[a:b] for a, b in pairwise(places)]
    for batch in [*map(extractor.feed, pieces), extractor.end()]:
        for name, found in batch:
            kept.setdefault(name, Series()).extend(found)
            points.setdefault(name, []).extend(found)
    by_hand = {name: Series() for name in points}
    for name, series in by_hand.items():
        series.extend(points[name])
    records = {name: series.to_record() for name, series in sorted(kept.items())}
    assert repr(records) == repr({n: s.to_record() for n, s in sorted(by_hand.items())})
    return repr(sorted(points.items())), repr(records)


@given(logs(), st.lists(st.integers(0, 10_000), max_size=8))
def test_lines_taken_at_once_say_what_each_says_by_itself(
    lines: list[str], cuts: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stoker.metrics.extractor._OFTEN", 10**9)  # so that there are no templates
        one_by_one = in_one_piece(lines)
    assert in_one_piece(lines) == one_by_one
    assert in_one_piece(lines, cuts) == one_by_one
