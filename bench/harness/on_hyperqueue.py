"""What HyperQueue's own Python runs: JOBS SLOTS DIR; prints the seconds."""

from __future__ import annotations

import sys
import time

from hyperqueue import Job, LocalCluster  # type: ignore[import-not-found]
from hyperqueue.cluster import WorkerConfig  # type: ignore[import-not-found]


def main() -> None:
    jobs, slots, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    with LocalCluster(directory) as cluster:
        client = cluster.client()
        job = Job()
        for _ in range(jobs):
            job.program(["sh", "-c", "true"], stdout=None, stderr=None)
        submitted = client.submit(job)
        began = time.perf_counter()
        cluster.start_worker(WorkerConfig(cores=slots))
        assert client.wait_for_jobs([submitted])
        took = time.perf_counter() - began
    print(took)


main()
