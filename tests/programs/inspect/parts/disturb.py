"""
disturb.py UMEM ROUNDS COPIED RESTLESS - disturbs umem while it has a process
copied or reads it

In each round umem inspects a process, and at a random moment umem is killed,
the process is stopped and continued, dies, or overwrites the words by which
umem and the library agree on a copy (umem/upkeep/snapshot.c).  Other processes
fork or replace themselves meanwhile.  umem must end soon, by a signal only if
it was killed.  The process must go on: it is not stopped or traced, and nothing
is left of its copy.
"""
import os
import random
import signal
import struct
import subprocess
import sys
import time

# Seconds in which each of these is done, also on a busy machine.
LIMIT = 90 * int(os.environ.get("TEST_TIME_FACTOR", "1"))

umem, rounds, copied, restless = (sys.argv[1], int(sys.argv[2]), sys.argv[3],
                                  sys.argv[4])
MIB = "80"
COMMANDS = [["leaks"], ["grep", "5500"], ["verify"], ["users"], ["status"],
            ["walk", "leak"]]
dice = random.Random(4711)


def start(*words):
    program = subprocess.Popen(words, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    while program.stdout.readline() != "ready\n":
        assert program.poll() is None, words
    return program


def stat(pid, name):
    """A word of /proc/PID/status."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(name + ":"):
            return line.split()[1]


def children(pid):
    for name in os.listdir("/proc"):
        try:
            text = open(f"/proc/{name}/stat").read()
            if text.rsplit(")", 1)[1].split()[1] == str(pid):
                yield int(name)
        except (OSError, IndexError):
            pass


def ill(pid):
    """Why the process cannot go on, or None."""
    if stat(pid, "State") not in ("R", "S", "D"):
        return f"its state is {stat(pid, 'State')}"
    if stat(pid, "TracerPid") != "0":
        return "it is traced"
    # The children of a process that forks are its own.
    if dice.restless is None and list(children(pid)):
        return f"it has the children {list(children(pid))}"
    return None


def goes_on(program, what):
    until = time.monotonic() + LIMIT
    while program.poll() is None and ill(program.pid):
        if time.monotonic() > until:
            sys.exit(f"{what}: {ill(program.pid)}")
        time.sleep(0.01)
    if program.poll() is not None:
        sys.exit(f"{what}: the process ended with {program.returncode}")


def look(program, command):
    words = [umem, command[0], *[w for w in command[1:] if w[0] == "-"],
             str(program.pid), *[w for w in command[1:] if w[0] != "-"]]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)


def ends(tool, what, was_killed=False):
    try:
        said = tool.communicate(timeout=LIMIT)[1]
    except subprocess.TimeoutExpired:
        tool.kill()
        sys.exit(f"{what}: umem does not end")
    status = tool.returncode
    if status == -signal.SIGKILL and was_killed:
        return
    if status not in (0, 1, 2) or (status == 2 and "umem: " not in said):
        sys.exit(f"{what}: umem: status {status}\n{said}")


def a_moment():
    time.sleep(dice.random() ** 2 * 0.3)


def snapshot_words(pid):
    """Addresses of the library's words for copies."""
    found = {}
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in open(f"/proc/{pid}/maps"):
            if "libumem" not in line or "r" not in line.split()[1]:
                continue
            at, end = (int(word, 16) for word in line.split()[0].split("-"))
            text = os.pread(memory.fileno(), end - at, at)
            for name in ("&snapshot", "snapshot.state", "snapshot.thread",
                         "snapshot.sleeps_on", "snapshot.waking"):
                i = text.find(name.encode().ljust(48, b"\0"))
                if i >= 0:
                    found[name], = struct.unpack_from("<q", text, i + 48)
                if i >= 0 and name[0] == "&":
                    # A variable has its distance from the entry.
                    found[name] += at + i
    base = found.pop("&snapshot")
    return {name[9:]: base + offset for name, offset in found.items()}


def kill_umem(program, what):
    tool = look(program, dice.choice(COMMANDS))
    a_moment()
    tool.kill()
    ends(tool, what, was_killed=True)


def stop(program, what):
    """The process is stopped as by a shell, and continued."""
    tool = look(program, dice.choice(COMMANDS))
    a_moment()
    program.send_signal(signal.SIGSTOP)
    a_moment()
    program.send_signal(signal.SIGCONT)
    ends(tool, what)


def overwrite(program, what):
    words = snapshot_words(program.pid)
    before = {}
    tool = look(program, ["leaks"])
    with open(f"/proc/{program.pid}/mem", "r+b", 0) as memory:
        for name, bytes in (("sleeps_on", 8), ("waking", 4)):
            before[name] = os.pread(memory.fileno(), bytes, words[name])
        while tool.poll() is None:
            name = dice.choice(list(words))
            value = dice.choice([0, 1, 2, 3, dice.randrange(2 ** 32)])
            os.pwrite(memory.fileno(), struct.pack("<I", value), words[name])
            time.sleep(dice.random() * 0.01)
        for name, value in before.items():
            os.pwrite(memory.fileno(), value, words[name])
    ends(tool, what)


def check(mode):
    """Rounds with a process that must go on."""
    program = start(copied, MIB, *mode)
    for i in range(rounds):
        for disturbance in (kill_umem, stop, overwrite):
            what = f"{mode}, round {i}, {disturbance.__name__}"
            disturbance(program, what)
            goes_on(program, what)
    tool = look(program, ["leaks"])
    ends(tool, f"{mode}, at the end")
    if tool.returncode != 1:
        sys.exit(f"{mode}: no leaks at the end")
    program.stdin.close()
    if program.wait(LIMIT) != 0:
        sys.exit(f"{mode}: status {program.returncode}")


def check_death(mode):
    program = start(copied, MIB, *mode)
    tool = look(program, dice.choice(COMMANDS))
    a_moment()
    program.kill()
    program.wait()
    ends(tool, f"{mode} dies")


def check_restless(mode):
    dice.restless = mode
    program = start(restless, MIB, mode)
    for i in range(2 * rounds):
        tool = look(program, dice.choice(COMMANDS))
        if i % 2:
            a_moment()
            tool.kill()
        ends(tool, mode, was_killed=i % 2 == 1)
        goes_on(program, mode)
    program.stdin.close()
    if program.wait(LIMIT) != 0:
        sys.exit(f"{mode}: status {program.returncode}")
    dice.restless = None


dice.restless = None
for mode in ([], ["single"], ["cached"], ["waits"], ["naps"]):
    check(mode)
    check_death(mode)
check_restless("fork")
check_restless("exec")
