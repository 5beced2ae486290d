# umem-gdb.py - umem's commands inside gdb
#
# gdb loads this file by itself when a program loads the library, if it lies
# beside it as libumem.so.1.0.0-gdb.py (or libumem_malloc.so.1.0.0-gdb.py) in a
# folder that gdb trusts ("set auto-load safe-path"); otherwise "source" it.
#
#	(gdb) umem leaks -d
#	(gdb) umem whatis 0x5501e2470040
#	(gdb) umem stat
#
# The commands are those of umem(1), without the process or core file: it is
# what gdb has.  A core file is read as it is.  Of a live process gdb writes a
# core file for us each time, since only one can trace a process: that takes
# as long as "gcore".  Words that are no options may be expressions of gdb.
#
# The command umem is looked for in the folder of this file, in ../bin and
# ../../bin from there, and in PATH; "set umem-command" names another.

import os
import shutil
import subprocess
import tempfile

import gdb

HERE = os.path.dirname(os.path.realpath(__file__))
RUNNING_COMMANDS = ("run", "version", "help")


class UmemCommand(gdb.Parameter):
    """The program umem that the command umem runs."""

    set_doc = "Set the program that the command umem runs."
    show_doc = "Show the program that the command umem runs."

    def __init__(self):
        super().__init__(
            "umem-command", gdb.COMMAND_FILES, gdb.PARAM_OPTIONAL_FILENAME
        )
        self.value = ""

    def get_set_string(self):
        return ""

    def get_show_string(self, value):
        return value or "(searched for)"


def find_program(parameter):
    if parameter.value:
        return parameter.value
    for folder in (HERE, HERE + "/../bin", HERE + "/../../bin"):
        path = os.path.join(folder, "umem")
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    path = shutil.which("umem")
    if path is None:
        raise gdb.GdbError("no program umem; see set umem-command")
    return path


def evaluate(word):
    """An expression that is no plain word of umem's becomes a number."""
    if not word.startswith(("$", "&", "*", "(")):
        return word
    return "%x" % (int(gdb.parse_and_eval(word)) & (2**64 - 1))


def core_of_target(folder):
    """The path of a core file of what gdb looks at."""
    if gdb.selected_inferior().pid == 0:
        raise gdb.GdbError("no process and no core file")
    target = gdb.execute("info target", to_string=True)
    for line in target.splitlines():
        if line.strip().startswith("`") and "file type elf" in line:
            path = line.strip()[1:].split("',")[0]
            if is_core(path):
                return path
    path = os.path.join(folder, "core")
    gdb.execute("gcore " + path, to_string=True)
    return path


def is_core(path):
    with open(path, "rb") as file:
        head = file.read(18)
    return len(head) == 18 and head[16:18] == b"\x04\x00"


class Umem(gdb.Command):
    """Look at the memory allocator umem: umem COMMAND [OPTION...] [WORD...]

    "umem help" lists the commands; leave out PID|CORE."""

    def __init__(self, parameter):
        super().__init__("umem", gdb.COMMAND_DATA)
        self.parameter = parameter

    def invoke(self, argument, from_tty):
        words = gdb.string_to_argv(argument) or ["help"]
        program = find_program(self.parameter)
        if words[0] in RUNNING_COMMANDS:
            if words[0] == "run":
                raise gdb.GdbError("run is for the shell")
            self.run([program] + words)
            return
        with tempfile.TemporaryDirectory(prefix="umem-gdb-") as folder:
            core = core_of_target(folder)
            self.run(self.with_target(program, words, core))

    @staticmethod
    def with_target(program, words, core):
        """The target stands before the first word that is no option."""
        valued = {
            "leaks": "c", "users": "c", "grep": "d", "log": "aclst",
        }.get(words[0], "")
        i = 1
        while i < len(words) and words[i].startswith("-"):
            takes_value = not words[i].startswith("--") and (
                words[i][-1] in valued
            )
            i += 2 if takes_value else 1
        return (
            [program]
            + words[:i]
            + [core]
            + [evaluate(word) for word in words[i:]]
        )

    @staticmethod
    def run(line):
        done = subprocess.run(
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            check=False,
        )
        gdb.write(done.stdout)


def has_been_loaded():
    """For the other library, perhaps, which has the same file beside it."""
    try:
        gdb.parameter("umem-command")
        return True
    except RuntimeError:
        return False


if not has_been_loaded():
    Umem(UmemCommand())
