"""Which names are those of metrics, which say how far a training is, and which are neither."""

from __future__ import annotations

import re

_EPOCHS = frozenset({"epoch", "epochs", "ep"})
_STEPS = frozenset(
    {"step", "steps", "global_step", "global_steps", "iter", "iters", "iteration", "iterations"}
    | {"it", "itr", "batch", "update", "updates", "num_updates", "n_updates", "timestep"}
    | {"timesteps", "total_timesteps", "num_timesteps", "episode"}
)
# Without `=` or `:`, as in `loss 0.31`, only these are metrics.
_KNOWN = re.compile(
    r"(?:^|[_./-]|(?<=[a-z])(?=[A-Z]))"
    r"(?i:loss|logloss|acc|accuracy|ppl|perplexity|bpc|auc|auroc|f\d|bleu|rouge|mse|mae|rmse|reward"
    r"|iou|miou|map|lr|psnr|ssim|fid|wer|cer|precision|recall|nll|elbo|kl|gnorm|grad_norm|top\d)"
    r"(?:@\d+)?$"
)
# These are words of many sentences: only with one more, as in `test error 0.1`.
_KNOWN_IF_QUALIFIED = re.compile(r"(?i:[a-z]+[_./-](?:error|err|return|score))$")
# What is said about a training, a machine or a program, and is no outcome.
_NO_OUTCOMES = (
    "using used use with in on at to of for from by is was took takes least most than about around"
    " version python torch pytorch cuda cudnn nccl driver numpy tensorflow keras jax transformers"
    " time date eta elapsed timestamp _timestamp now started finished duration remaining"
    " total_time wall_time"
    " v_num rank local_rank world_size node node_rank pid port line stacklevel code exit_code errno"
    " status signal device gpu gpus n_gpu gpu_id cpu cpus threads"
    " workers worker shard seed random_seed random_state"
    " batch_size bs train_batch_size eval_batch_size max_epochs n_epochs total_epochs"
    " max_steps total_steps max_iter max_iters warmup warmup_steps"
    " patience n_classes hidden_size hidden_dim n_layers n_layer"
    " n_heads n_head n_embd d_model embed_dim vocab_size block_size max_length max_seq_length"
    " in_features out_features in_channels out_channels kernel_size stride padding"
    " params parameters n_parameters n_params total_params"
    " trainable_params non-trainable_params n_samples examples samples"
    " label labels id index idx size length len shape page retry attempt attempts"
)
_NO_METRICS = frozenset(_NO_OUTCOMES.split())
# A commit or another checksum, also a shortened one, or a UUID.
_HASH = re.compile(
    r"(?i:(?=.*\d)(?:[\da-f]{7,}|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?:\u2026|\.{2,3})?)$"
)
_NO_NAMES = (".py", ".c", ".cc", ".cpp", ".h", ".cu", ".rs", ".go", "//")


def name_of(raw: bytes) -> str | None:
    """The name of a metric, as it is in a line; None if it can't be one."""
    name = raw.decode("utf-8", "replace").strip().replace("'s ", "_").replace(" ", "_")
    if not name or not name.isprintable() or "\ufffd" in name or name.endswith(_NO_NAMES):
        return None
    return name


def is_metric(name: str, said: bool) -> bool:
    """Whether a number with this name is a value of a metric; `said` if `=` or `:` is between."""
    if name.lower() in _NO_METRICS or name.lower().startswith("num_") or _HASH.match(name):
        return False
    return said or bool(_KNOWN.search(name) or _KNOWN_IF_QUALIFIED.match(name))


def axis_of(name: str | None) -> str | None:
    """Whether a number of this name says how far it is: `step`, `epoch`, or None."""
    if name is None:
        return None
    plain = name.lower().removeprefix("train_").removeprefix("training_")
    return "epoch" if plain in _EPOCHS else "step" if plain in _STEPS else None
