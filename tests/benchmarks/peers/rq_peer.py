"""rq, with its worker that forks for each job, on Redis as it comes: no commit waits for the disk."""

import subprocess
import sys
import time

from redis import Redis
from rq import Queue
from rq.job import Job
from rq.registry import FinishedJobRegistry
from stopwatch import answer, rate

SINGLE = 500
AT_ONCE = 1000


def fill(queue: Queue, count: int) -> tuple[float, float]:
    """Rates of enqueues one by one, and in bulk."""
    began = time.perf_counter()
    for _ in range(SINGLE):
        queue.enqueue("time.gmtime", result_ttl=3600)
    single, began = rate(SINGLE, began), time.perf_counter()
    for start in range(0, count, AT_ONCE):
        given = Queue.prepare_data("time.gmtime", result_ttl=3600)
        queue.enqueue_many([given._replace(job_id=None) for _ in range(min(AT_ONCE, count - start))])
    return single, rate(count, began)


def drained(url: str, queue: Queue, workers: int) -> float:
    """Jobs a second of *workers* processes, from the beginning of the first job to the end of the last."""
    command = [sys.executable, "-m", "rq.cli", "worker", "--burst", "--quiet", "--url", url, queue.name]
    processes = [subprocess.Popen(command) for _ in range(workers)]
    for process in processes:
        process.wait()
    ids = FinishedJobRegistry(queue=queue).get_job_ids()
    found = [job for job in Job.fetch_many(ids, connection=queue.connection) if job]
    seconds = max(job.ended_at for job in found) - min(job.started_at for job in found)
    return len(found) / seconds.total_seconds()


if __name__ == "__main__":
    url, jobs, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    queue = Queue("noop", connection=Redis.from_url(url))
    single, bulk = fill(queue, jobs)
    answer(single=single, bulk=bulk, drain=drained(url, queue, workers))
