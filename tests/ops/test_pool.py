"""The threads of the native kernels: started when needed, quiet when idle, whole after a fork, gone at exit."""

import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import shoal._native as native

THREADS = (1, 2, 3)
SECONDS = 60
# RMSNorm on buffers of its own, without torch, whose threads would be counted too.
PREAMBLE = """
import ctypes, multiprocessing, os, sys, threading, time
import shoal._native as native

COLUMNS = 512

class Work:
    def __init__(self, threads, rows=64):
        self.kernels, self.rows = native.Kernels("portable", threads), rows
        self.x = ctypes.create_string_buffer(os.urandom(1) * 2 * COLUMNS * rows)
        self.y = ctypes.create_string_buffer(2 * COLUMNS * rows)
        self.weight = ctypes.create_string_buffer(b"\\x80\\x3f" * COLUMNS)

    def run(self):
        addresses = [ctypes.addressof(buffer) for buffer in (self.x, self.weight, self.y)]
        self.kernels.rms_norm(*addresses, self.rows, COLUMNS, 1e-6)
        return bytes(self.y)

def threads_now():
    return len(os.listdir("/proc/self/task"))
"""


def start(script: str) -> subprocess.Popen[str]:
    code = PREAMBLE + textwrap.dedent(script)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def run(script: str) -> str:
    """What the script printed; it must end by itself, without a word on stderr."""
    with start(script) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert (process.returncode, err) == (0, "")
    return out


@pytest.mark.skipif(sys.platform != "linux", reason="counts the entries of /proc/self/task")
@pytest.mark.parametrize("threads", THREADS)
def test_as_many_threads_as_asked_for_and_none_before_there_is_work(threads: int) -> None:
    found = run(f"""
        before, work = threads_now(), Work({threads})
        idle = threads_now()
        for _ in range(20):
            work.run()
        busy = threads_now()
        del work
        print(idle - before, busy - before, threads_now() - before)
    """)
    assert found.split() == ["0", str(threads - 1), "0"]


def test_idle_threads_burn_no_processor_time() -> None:
    found = run("""
        work = Work(3)
        for _ in range(20):
            work.run()
        start = time.process_time()
        time.sleep(0.5)
        print(time.process_time() - start)
    """)
    # One that spins would burn half a second.
    assert float(found) < 0.15


@pytest.mark.parametrize("threads", THREADS)
def test_python_threads_that_call_at_once_get_what_one_gets(threads: int) -> None:
    kernels = native.Kernels(native.isas()[0], threads)
    rows, columns = 48, 640
    weight = torch.ones(columns, dtype=torch.bfloat16)

    def normalized(seed: int) -> torch.Tensor:
        x = torch.randn((rows, columns), generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)
        y = torch.empty_like(x)
        kernels.rms_norm(x.data_ptr(), weight.data_ptr(), y.data_ptr(), rows, columns, 1e-6)
        return y

    alone = [normalized(seed) for seed in range(40)]
    with ThreadPoolExecutor(4) as callers:
        together = list(callers.map(normalized, range(40)))
    assert all(torch.equal(*pair) for pair in zip(alone, together, strict=True))
    assert kernels.calls == 80


@pytest.mark.parametrize("moment", ["before any work", "spinning", "asleep", "at work"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_works_and_its_parent_goes_on(threads: int, moment: str) -> None:
    run(f"""
        moment, work = {moment!r}, Work({threads}, rows=1024)
        wanted = Work(1, rows=1024)
        wanted.x = work.x
        wanted = wanted.run()
        done = threading.Event()
        def call():
            while not done.is_set():
                work.run()
        caller = threading.Thread(target=call)
        if moment == "at work":
            caller.start()
        for _ in range(5):
            if moment in ("spinning", "asleep"):
                work.run()
            if moment == "asleep":
                time.sleep(0.01)
            child = os.fork()
            if child == 0:
                os._exit(0 if work.run() == work.run() == wanted else 7)
            assert work.run() == wanted
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        done.set()
        if moment == "at work":
            caller.join()
    """)


def test_forked_worker_processes_use_the_kernels_of_their_parent() -> None:
    run("""
        work = Work(2)
        wanted = work.run()
        def one(_):
            return work.run()
        with multiprocessing.get_context("fork").Pool(2) as processes:
            assert processes.map(one, range(8)) == [wanted] * 8
        assert work.run() == wanted
    """)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_during_work_is_a_keyboard_interrupt(threads: int) -> None:
    with start(f"""
        work = Work({threads}, rows=4096)
        work.run()
        try:
            print("working")
            while True:
                work.run()
        except KeyboardInterrupt:
            work.run()
            print("interrupted")
    """) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (0, "interrupted\n", "")


@pytest.mark.parametrize("wait", [0, 0.01], ids=["spinning", "asleep"])
@pytest.mark.parametrize("keep", [True, False], ids=["kept", "let go"])
def test_the_interpreter_ends_whatever_the_threads_do(wait: float, keep: bool) -> None:
    run(f"""
        work = Work(3)
        work.run()
        time.sleep({wait})
        if {keep}:
            sys.modules["kept"] = work
    """)


def test_the_interpreter_ends_while_a_thread_of_its_own_calls() -> None:
    run("""
        work = Work(2, rows=4096)
        def call():
            while True:
                work.run()
        threading.Thread(target=call, daemon=True).start()
        time.sleep(0.05)
    """)
