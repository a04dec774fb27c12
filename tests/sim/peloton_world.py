"""What is real about a Peloton cluster, and survives all processes: the job manager's database, the hosts with their
containers, and the events about them that are not acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random

from remuda_proto.mesos.v1 import mesos_pb2 as mesos
from remuda_proto.peloton.private.eventstream import eventstream_pb2 as eventstream
from remuda_proto.peloton.private.resmgr import resmgr_pb2 as pb
from remuda_proto.remuda.resmgr.v1 import hosts_pb2, log_pb2

from .story import Story

JOB = "11111111-1111-4111-8111-{:012}"
NATURE_S = 0.25
HOSTS, HOST_CPU, HOST_MB = 5, 4.0, 4_000.0
TASKS = 60  # at most, in all
NEW, ENQUEUED, ENDED = "new", "enqueued", "ended"


class Wanted:
    """A task of the database. `forever`: a service: what ends is started again as a new run. `gang`: the tasks that are
    enqueued together."""

    def __init__(self, spec: pb.Task, pool: int, gang: int, forever: bool, lasts_s: float) -> None:
        self.spec, self.pool, self.gang, self.forever, self.lasts_s = spec, pool, gang, forever, lasts_s
        self.run = 1
        self.state = NEW

    @property
    def id(self) -> str:
        return self.spec.id.value

    @property
    def run_id(self) -> str:
        return f"{self.id}-{self.run}"

    def message(self) -> pb.Task:
        made = pb.Task()
        made.CopyFrom(self.spec)
        made.taskId.value = self.run_id
        return made


class Container:
    def __init__(self, task_id: str, host: str, ends_at: float) -> None:
        self.task_id, self.host, self.ends_at = task_id, host, ends_at


class World:
    """`resting`: no new jobs, and nothing fails any more."""

    REVOCABLE = 0.15  # part of the jobs
    TASK_MB = 200.0
    PRIORITIES = 3
    TASK_CPU: tuple[float, ...] = (0.5, 1.0, 2.0)

    def __init__(self, random: Random, story: Story, pools: int, hosts: int = HOSTS) -> None:
        self.random, self.story, self._pools = random, story, pools
        self._clock: Callable[[], float] = asyncio.get_running_loop().time
        self.resting = False
        self.tasks: dict[str, Wanted] = {}
        self.containers: dict[str, Container] = {}
        self.launched: set[str] = set()
        self.hosts = {name: _host(name) for name in (f"host-{number}" for number in range(hosts))}
        self.dead: dict[str, log_pb2.Host] = {}
        self.events: deque[eventstream.Event] = deque()
        self._offset = self._gangs = self._jobs = 0

    async def nature(self) -> None:
        """What happens by itself: jobs come, containers end, hosts die, drain, and come back."""
        while True:
            await asyncio.sleep(NATURE_S)
            now = self._clock()
            for run_id, one in list(self.containers.items()):
                if now >= one.ends_at:
                    fails = not self.resting and self.random.random() < 0.2
                    self.end(run_id, "TASK_FAILED" if fails else "TASK_FINISHED")
            if self.resting:
                self.restore()
                continue
            if self.random.random() < 0.3:
                self.new_job()
            if self.random.random() < 0.02:
                self._befall_a_host()
            if self.containers and self.random.random() < 0.02:
                self._forget(self.random.choice(list(self.containers)))

    def new_job(self) -> None:
        if len(self.tasks) >= TASKS:
            return
        random = self.random
        self._jobs += 1
        job, pool = JOB.format(self._jobs), random.randrange(self._pools)
        preemptible, revocable = random.random() < 0.7, random.random() < self.REVOCABLE
        gang_size, forever = random.choice((1, 1, 2, 3)), random.random() < 0.3
        cpu, priority = random.choice(self.TASK_CPU), random.randrange(self.PRIORITIES)
        self._gangs += 1
        for instance in range(gang_size):
            spec = pb.Task(
                name=f"task-{instance}", priority=priority, preemptible=preemptible or revocable, revocable=revocable,
                type=pb.STATELESS if forever else pb.BATCH, numPorts=random.choice((0, 0, 1)),
            )  # fmt: skip
            spec.id.value, spec.jobId.value = f"{job}-{instance}", job
            spec.resource.cpuLimit, spec.resource.memLimitMb = cpu, self.TASK_MB
            self.tasks[spec.id.value] = Wanted(spec, pool, self._gangs, forever, random.uniform(0.5, 10.0))
        self.story.tell(f"job {self._jobs}: {gang_size} of cpu {cpu} in pool {pool}, forever {forever}")

    def _befall_a_host(self) -> None:
        name = self.random.choice([*self.hosts, *self.dead])
        if name in self.dead:
            self.hosts[name] = self.dead.pop(name)
        elif self.random.random() < 0.5 and len(self.hosts) > 1:
            self.story.tell(f"{name} dies")
            self.dead[name] = self.hosts.pop(name)
            for run_id in [run_id for run_id, one in self.containers.items() if one.host == name]:
                self.end(run_id, "TASK_LOST")
        else:
            host = self.hosts[name]
            host.draining = not host.draining
            self.story.tell(f"{name} drains: {host.draining}")

    def _forget(self, run_id: str) -> None:
        """The container ends, and no event ever says so. Its task is started again, or forgotten, too."""
        one = self.containers.pop(run_id)
        task = self.tasks[one.task_id]
        self.story.tell(f"{run_id[-6:]} on {one.host} is forgotten")
        if task.run_id == run_id and task.state != ENDED:
            if self.random.random() < 0.5:
                self.again(task)
            else:
                task.state = ENDED

    def restore(self) -> None:
        """All hosts are back, and one more that is large: what is admitted has room somewhere, too."""
        self.hosts.setdefault("spare", _host("spare", HOSTS))
        self.hosts.update(self.dead)
        self.dead.clear()
        for host in self.hosts.values():
            host.draining = False

    def host_names(self) -> set[str]:
        """Of those that are up."""
        return set(self.hosts)

    def reported_names(self) -> list[str]:
        """Of hosts about which is told what runs there, if anything."""
        return [*self.hosts, *self.dead]

    def launch(self, run_id: str, task: Wanted, host: str) -> None:
        self.story.tell(f"{run_id[-6:]} is launched on {host}")
        self.launched.add(run_id)
        ends_at = float("inf") if task.forever else self._clock() + task.lasts_s
        self.containers[run_id] = Container(task.id, host, ends_at)
        task.state = ENQUEUED
        self.tell(run_id, "TASK_RUNNING")

    def end(self, run_id: str, mesos_state: str) -> None:
        """The container ends. What is not finished is wanted again, as a new run in a gang of its own."""
        one = self.containers.pop(run_id)
        self.story.tell(f"{run_id[-6:]} ends on {one.host}: {mesos_state}")
        self.tell(run_id, mesos_state)
        task = self.tasks[one.task_id]
        if task.run_id == run_id:
            if mesos_state == "TASK_FINISHED" or task.state == ENDED:
                task.state = ENDED
            else:
                self.again(task)

    def again(self, task: Wanted) -> None:
        task.run += 1
        self._gangs += 1
        task.gang, task.state = self._gangs, NEW

    def tell(self, run_id: str, mesos_state: str) -> None:
        self._offset += 1
        status = mesos.TaskStatus(task_id=mesos.TaskID(value=run_id), state=mesos_state)  # type: ignore[arg-type]
        self.events.append(
            eventstream.Event(offset=self._offset, type=eventstream.Event.MESOS_TASK_STATUS, mesosTaskStatus=status)
        )

    def new_gangs(self) -> list[list[Wanted]]:
        found: dict[int, list[Wanted]] = {}
        for task in self.tasks.values():
            if task.state == NEW:
                found.setdefault(task.gang, []).append(task)
        return list(found.values())

    def wants(self, run_id: str) -> Wanted | None:
        task = self.tasks.get(run_id.rpartition("-")[0])
        return task if task is not None and task.run_id == run_id and task.state != ENDED else None

    def described(self) -> hosts_pb2.PutHostsRequest:
        return hosts_pb2.PutHostsRequest(hosts=list(self.hosts.values()))


def _host(name: str, times: int = 1) -> log_pb2.Host:
    capacity = (HOST_CPU * times, 0, HOST_MB * times, HOST_MB * times)
    return log_pb2.Host(
        hostname=name, capacity=capacity, slack_cpu=HOST_CPU * times, first_port=31_000, last_port=31_000 + 8 * times
    )
