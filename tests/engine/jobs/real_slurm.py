"""Slurm with this machine as its only node: munge, controller and node daemon in a folder of their own, on free ports,
under the user of the tests. It keeps no accounts, confines no job, and queues none again of its own accord."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from getpass import getuser
from pathlib import Path

import pytest

from tests.support import ROOT

PROGRAMS = "munged slurmctld slurmd sbatch srun scontrol squeue scancel".split()
PATIENCE_S = 230.0
LEFT_S = 15.0
"""Until a job's step and script have ended, on a machine with other work: Slurm gives them a few seconds."""
QUIET = subprocess.DEVNULL
LISTED = "%i %T %r, starts %S, took %M of %l"
CONFIG = """
ClusterName=driftscope
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobRequeue=0
KillWait=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def until(holds: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"{what}:\n{_quietly('squeue', '--array', '--states=all', f'--format={LISTED}')}"
        time.sleep(0.05)


def asked(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def state_of(job: str) -> str:
    return asked("squeue", "--noheader", "--array", "--states=all", "--format=%T", f"--jobs={job}")


def bring_limit_near(job: str) -> None:
    """Its time is over in one to two minutes: within half a minute Slurm warns it, and wakes it for that."""
    minutes = int(asked("squeue", "--noheader", "--format=%M", f"--jobs={job}").split(":")[-2])
    asked("scontrol", "update", f"JobId={job}", f"TimeLimit={minutes + 2}")


def start_now(job: str) -> None:
    """With its first limit again. Slurm itself lets a job that is queued again wait for two minutes; without any wait
    it takes the end of what is left of the job for that of the new start."""
    until(lambda: state_of(job) == "PENDING", f"{job} is not queued again")
    time.sleep(LEFT_S)
    asked("scontrol", "update", f"JobId={job}", "StartTime=now", "TimeLimit=240")


def process_of(job: str) -> int:
    """The process that carries out our task; its number among those of Slurm's jobs is in its environment. 0: none."""
    number, _, index = job.partition("_")
    named = f"SLURM_ARRAY_JOB_ID={number}\0SLURM_ARRAY_TASK_ID={index}\0" if index else f"SLURM_JOB_ID={number}\0"
    for process in _processes():
        with suppress(OSError):
            words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
            given = set(Path(f"/proc/{process}/environ").read_text(errors="replace").split("\0"))
            if b"submitit.core._submit" in words and words[0] != b"srun" and given.issuperset(named.split("\0")[:-1]):
                return process
    return 0


@contextmanager
def started(patch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Its folder. Whatever it started has ended with the block, or with this process."""
    if missing := [name for name in PROGRAMS if not shutil.which(name)]:
        pytest.skip(f"no Slurm here ({', '.join(missing)}): apt-get install slurm-wlm munge")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)))
        (folder / "state").mkdir()
        (folder / "spool").mkdir()
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
            ports = {"controller": one.getsockname()[1], "node": other.getsockname()[1]}
        host = socket.gethostname().partition(".")[0]
        config = folder / "slurm.conf"
        config.write_text(CONFIG.format(folder=folder, host=host, user=getuser(), **ports), encoding="utf-8")
        patch.setenv("SLURM_CONF", str(config))
        daemons = stack.enter_context(ExitStack())
        guard = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, cwd=ROOT)
        stack.enter_context(guard)  # closes its input, and waits for it
        files = [f"--socket={folder / 'munge'}", f"--key-file={folder / 'key'}"]
        files += [f"--{name}={folder / 'munge'}.{name}" for name in ("pid-file", "log-file", "seed-file")]
        for command in (["munged", "--foreground", "--force", *files], ["slurmctld", "-D"], ["slurmd", "-D"]):
            daemon = subprocess.Popen(command, stdin=QUIET, stdout=QUIET, stderr=QUIET)
            daemons.callback(daemon.wait)
            daemons.callback(daemon.kill)
        try:
            until(lambda: _quietly("sinfo", "--noheader", "--format=%T") == "idle\n", "Slurm does not start")
        except AssertionError as error:
            logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in folder.glob("*log*"))
            raise AssertionError(logs) from error
        yield folder


def _quietly(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def _end_all() -> None:
    """Daemons, steps and tasks: all that have this process's Slurm in their environment."""
    _quietly("scancel", "--user", getuser())
    for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        for process in _processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)
        time.sleep(0.5)


def _processes() -> list[int]:
    """Of this Slurm, without this one."""
    variable, found = f"SLURM_CONF={os.environ['SLURM_CONF']}", []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if variable in path.read_text(errors="replace").split("\0"):
                found.append(int(path.parent.name))
    return [process for process in found if process != os.getpid()]


if __name__ == "__main__":  # the guard, which outlives the tests' process, however that ends
    sys.stdin.read()
    _end_all()
    shutil.rmtree(Path(os.environ["SLURM_CONF"]).parent, ignore_errors=True)
