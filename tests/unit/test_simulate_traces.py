"""Traces: every sort is read into the same jobs, and what is wrong is told with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.core.model import Need
from stoker.errors import StokerError, UsageError
from stoker.sim.readers import Trace, read_trace
from stoker.sim.traces import TraceJob, arrival


def read(tmp_path: Path, text: str, name: str = "trace.csv") -> Trace:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_trace(path)


def test_our_own_columns(tmp_path: Path) -> None:
    text = (
        "submit,run,gpus,mem,peak,use,kind,group,priority,limit\n"
        "2026-12-01 08:00,90,2,8G,9G,85,train,me,3,2h\n"
        "2026-12-01 08:01,1h30m,0.5,,,,,,,\n"
        "2026-12-01 08:02,10,0,,,,,,,\n"
    )
    trace = read(tmp_path, text)
    assert trace.jobs == [
        TraceJob(0, 90_000, 2, None, 8192, 9216, (85,), "train", "me", 3, 7_200_000),
        TraceJob(60_000, 5_400_000, 1, 500),
    ]
    assert trace.left_out == {"without a GPU": 1}


def test_philly(tmp_path: Path) -> None:
    rows = "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n2017-10-09 06:13:03,2951.0,8,1,6214e9\n"
    jobs = read(tmp_path, "timestamp,duration,num_gpus,gpu_time,cluster\n" + rows).jobs
    assert [(one.at_ms, one.runs_ms, one.gpus, one.group) for one in jobs] == [
        (2_932_000, 66_000, 1, "11cb48"),
        (0, 2_951_000, 8, "6214e9"),
    ]


def test_muri_tells_what_each_job_takes_of_three_things(tmp_path: Path) -> None:
    head = (
        "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
        "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
    )
    (job,) = read(tmp_path, head + "0,8,5000,10956,gpt2,4,5095000,9,437,0.6,419,49,0\n").jobs
    assert (job.at_ms, job.runs_ms, job.gpus, job.use) == (0, 5_095_000, 8, (96, 0, 11))


def test_openb_has_shares_and_pods_without_a_gpu(tmp_path: Path) -> None:
    head = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time\n"
    )
    rows = (
        "a,1,1,1,460,,LS,Running,10,110,20\n"
        "b,1,1,0,0,,LS,Running,10,110,20\n"
        "c,1,1,1,1000,,LS,Pending,10,110,\n"
    )
    trace = read(tmp_path, head + rows)
    assert [(one.share_milli, one.runs_ms) for one in trace.jobs] == [(460, 90_000)]
    assert trace.left_out == {"without a GPU": 1, "never scheduled": 1}


def test_sacct(tmp_path: Path) -> None:
    text = (
        "JobID|JobName|Account|Submit|Elapsed|Timelimit|AllocTRES|TRESUsageInMax\n"
        "7|train|lab|2026-12-01T08:00:00|1-00:00:30|2-00:00:00|cpu=4,gres/gpu=2,mem=8G|"
        "gres/gpumem=9G,gres/gpuutil=87\n"
        "7.batch|batch|lab|2026-12-01T08:00:00|00:00:30||cpu=4|\n"
        "8|cpu|lab|2026-12-01T08:00:00|00:00:30|UNLIMITED|cpu=4|\n"
    )
    trace = read(tmp_path, text)
    (job,) = trace.jobs
    assert (job.gpus, job.runs_ms, job.limit_ms) == (2, 86_430_000, 172_800_000)
    assert (job.peak_mib, job.use, job.group) == (9216, (87,), "lab")
    assert trace.left_out == {"steps of jobs": 1, "without a GPU": 1}


def test_gavel_is_read_with_the_measured_speeds_beside_it(tmp_path: Path) -> None:
    job = "('A3C', 1)"
    speeds = {"v100": {job: {"null": 4.0, job: [2.4, 2.4]}}}
    (tmp_path / "simulation_throughputs.json").write_text(json.dumps(speeds), encoding="utf-8")
    line = "A3C\tpython3 a.py\ta\t--steps\t1\t400\t1\t1\t-1.0\t30"
    (one,) = read(tmp_path, line + "\n", "x.trace").jobs
    assert (one.runs_ms, one.use, one.kind) == (100_000, (83,), "A3C on 1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("submit,run\n0,1h\n5,x\n", "line 3: run: 'x' is not a length of time"),
        ("submit,run\nnow,1h\n", "line 2: submit 'now' is not a moment"),
        ("submit,run,gpus\n0,1h,1.5\n", "line 2: gpus: '1.5' GPUs"),
        ("submit,run,mem\n0,1h,8\n", "line 2: mem: '8'"),
        ("submit,run,use\n0,1h,much\n", "line 2: use 'much'"),
        ("submit,run\n0,1h,3\n", "line 2: 3 cells, 2 columns"),
        ("submit,run\n0,-5\n", "line 2: run '-5' can't be"),
        ("who,what\n0,1h\n", "line 1: no trace has the columns 'who, what'"),
        ("submit,run\n", "has no job that could be played"),
        ("", "is empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, text)
    assert said in error.value.message
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(StokerError, match="No such file"):
        read_trace(tmp_path / "none.csv")


def test_a_job_is_asked_for_as_the_way_to_use_memory_says() -> None:
    job = TraceJob(0, 1, 2, says_mib=4096, peak_mib=5000, kind="k")
    assert arrival(job, "whole").need == Need(2)
    assert arrival(job, "declared").need == Need(2, mem_mib=4096, kind="k")
    assert arrival(job, "auto").need == Need(2, mem_mib=4096, kind="k")
    silent = TraceJob(0, 1, peak_mib=5000, kind="k")
    assert arrival(silent, "auto").need == Need(1, kind="k")
    assert arrival(silent, "declared").need == Need(1)
    assert arrival(TraceJob(0, 1, kind="k"), "auto").need == Need(1)
    assert arrival(TraceJob(0, 1, share_milli=500), "auto").need == Need(1, share_milli=500)
