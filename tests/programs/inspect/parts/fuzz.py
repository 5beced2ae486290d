"""
fuzz.py UMEM ROUNDS CORE... - damages cores and has umem look at them

A round is one piece of damage to one core, and one command.  What is damaged:
the length, the ELF header, a program header, the notes, the library's
description of itself, or a word that is not zero in memory.  The lengths of
each note are emptied in turn.  Saved looks, files of suppressions and the file
of the program are damaged, too.
"""
import json
import os
import random
import struct
import subprocess
import sys

# Seconds in which a command ends unless it hangs.
LIMIT = 60 * int(os.environ.get("TEST_TIME_FACTOR", "1"))

umem, rounds, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]

COMMANDS = [
    ["leaks", "-dv"], ["leaks", "-de"],
    ["stat"], ["status"], ["stat"],
    ["verify"], ["users", "-d"],
    ["log", "-v"], ["log", "-ltransaction", "-v"], ["walk", "allocated"],
    ["walk", "free"],
    ["whatis", "5500"], ["grep", "5500"], ["leaks", "--json"], ["metrics"],
    ["crash"], ["users", "-d"], ["users", "--pprof"], ["users", "--html"],
    ["users"],
]


def headers(core):
    """(offset, type, file offset, bytes) of each program header."""
    at, = struct.unpack_from("<Q", core, 32)
    n, = struct.unpack_from("<H", core, 56)
    for i in range(n):
        one = struct.unpack_from("<IIQQQQQQ", core, at + 56 * i)
        yield at + 56 * i, one[0], one[2], one[5]


def areas(core):
    """What to damage, as ranges of the file; each is as likely."""
    heads = list(headers(core))
    described = core.index(b"umem described\n")
    yield [(0, 64)]
    yield [(at, at + 56) for at, _, _, _ in heads]
    yield [(at, at + n) for _, kind, at, n in heads if kind == 4]
    yield [(described, described + 64)]
    start, end = struct.unpack_from("<QQ", core, described + 32)
    entries = places(core)(start)
    yield [(entries, entries + end - start)]
    memory = [(at, at + n) for _, kind, at, n in heads if kind == 1 and n]
    yield memory
    yield [m for m in memory if m[0] <= described < m[1]]


def place(dice, core, area):
    """A word in there, most often one that is not zero."""
    for _ in range(200):
        start, end = dice.choice(area)
        at = dice.randrange(start, max(start + 1, end - 8)) & ~7
        if core[at:at + 8].strip(b"\0"):
            break
    return at


def damage(dice, word):
    value, = struct.unpack("<Q", word)
    ways = [
        value ^ 1 << dice.randrange(64), value ^ 1 << dice.randrange(16),
        0, 2 ** 64 - 1, dice.randrange(2 ** 64), dice.randrange(256),
        value + 8, value - 4096, value << 32 & 2 ** 64 - 1, 2 ** 63,
    ]
    return struct.pack("<Q", dice.choice(ways) & 2 ** 64 - 1)


def look(name, command, what):
    words = [umem, command[0], *[w for w in command[1:] if w[0] == "-"], name,
             *[w for w in command[1:] if w[0] != "-"]]
    try:
        run = subprocess.run(words, capture_output=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        sys.exit(f"{what}: {' '.join(words)}: never ends")
    said = run.stderr.decode(errors="replace")
    lines = [line for line in said.splitlines() if line]
    if run.returncode not in (0, 1, 2) or (
            run.returncode == 2 and
            (not lines or not lines[-1].startswith("umem: "))):
        sys.exit(f"{what}: {' '.join(words)}: status {run.returncode}\n{said}")
    return run.returncode


def cut(name, dice, n):
    core = open(name, "rb").read()
    lengths = [dice.randrange(len(core)) for _ in range(n // 2)]
    lengths += [dice.randrange(9000) for _ in range(n // 2)]
    for length in sorted(lengths, reverse=True):
        os.truncate(name, length)
        look(name, dice.choice(COMMANDS[:10]), f"{name} cut at {length}")
    open(name, "wb").write(core)


def harm(name, dice, n):
    """The statuses of n rounds; of more, until each status has been seen."""
    core = open(name, "rb").read()
    where = [area for area in areas(core) if area]
    seen = set()
    with open(name, "r+b", 0) as file:
        for i in range(10 * n):
            if i >= n and seen == {0, 1, 2}:
                break
            at = place(dice, core, dice.choice(where))
            new = damage(dice, core[at:at + 8].ljust(8, b"\0"))
            file.seek(at)
            file.write(new)
            seen.add(look(name, dice.choice(COMMANDS),
                          f"{name} at {at}: {core[at:at + 8].hex()} is "
                          f"{new.hex()}"))
            file.seek(at)
            file.write(core[at:at + 8])
    return seen


def notes(core):
    """The header of each note."""
    for _, kind, at, n in headers(core):
        end = at + n if kind == 4 else at
        while at < end:
            yield at
            name, data = struct.unpack_from("<II", core, at)
            at += 12 + (name + 3 & ~3) + (data + 3 & ~3)


def described(core, name):
    """Value of an entry of the library's description."""
    at = core.index(name.encode() + b"\0")
    value = struct.unpack_from("<Q", core, at + 48)[0]
    if not name.startswith("&"):
        return value
    # A variable has its distance from the entry.
    (entry,) = [at - offset + start for offset, start, n in loads(core)
                if offset <= at < offset + n]
    return entry + value & (1 << 64) - 1


def loads(core):
    """Place in the file, address and bytes of each mapping of the core."""
    for at, kind, _, n in headers(core):
        if kind == 1 and n:
            offset, address = struct.unpack_from("<QQ", core, at + 8)
            yield offset, address, n


def places(core):
    """A function from an address to its place in the file."""
    mappings = list(loads(core))

    def place_of(address):
        (at,) = [offset + address - start for offset, start, n in mappings
                 if start <= address < start + n]
        return at

    return place_of


def owners(core):
    """Places of the words of the page map that name slabs and blocks."""
    place_of = places(core)
    owner = place_of(described(core, "&page_map") +
                     described(core, "page_map.owner"))
    table = place_of(*struct.unpack_from("<Q", core, owner))
    for at in range(table, len(core) - 8, 8):
        word, = struct.unpack_from("<Q", core, at)
        if word == 0:
            return
        yield at, word


def huge_segments(name):
    """Segments of the heap that seem to have 2**63 bytes."""
    core = open(name, "rb").read()
    place_of = places(core)

    def told(*words):
        return subprocess.run([umem, *words], capture_output=True, text=True,
                              check=True).stdout

    blocks = told("walk", name, "allocated").split()
    found = json.loads(told("whatis", "-a", "--json", name, *blocks[::50]))
    tags = {int(one["segment"], 16) for one in found
            if one.get("arena") == "umem_heap"}
    assert tags, found
    with open(name, "r+b", 0) as file:
        for tag in sorted(tags)[:3]:
            where = place_of(tag + described(core, "segment.size"))
            os.pwrite(file.fileno(), struct.pack("<Q", 1 << 63), where)
            look(name, ["leaks"], f"{name}: segment {tag:x} has 2**63 bytes")
            os.pwrite(file.fileno(), core[where:where + 8], where)


def empty_blocks(name):
    """Units of the heap that seem to be large blocks without bytes."""
    core = open(name, "rb").read()
    with open(name, "r+b", 0) as file:
        for at, _ in list(owners(core))[:2]:
            os.pwrite(file.fileno(), struct.pack("<Q", 1), at)
            look(name, ["stat"], f"{name}: the block at {at} has no bytes")
            os.pwrite(file.fileno(), core[at:at + 8], at)


def huge_blocks(name):
    """Large blocks that seem to have some 2**63 or 2**64 bytes."""
    core = open(name, "rb").read()
    with open(name, "r+b", 0) as file:
        for at, _ in list(owners(core))[:2]:
            for bytes in (1 << 63, (1 << 64) - (1 << 20)):
                os.pwrite(file.fileno(), struct.pack("<Q", bytes + 1), at)
                for command in [["users"], ["leaks"], ["stat"]]:
                    look(name, command,
                         f"{name}: the block at {at} has {bytes} bytes")
            os.pwrite(file.fileno(), core[at:at + 8], at)


def huge_heap(name):
    """A heap for which the command would need some GiB."""
    core = open(name, "rb").read()
    where = places(core)(described(core, "&committed_end"))
    end, = struct.unpack_from("<Q", core, where)
    for at, kind, _, _ in headers(core):
        start, = struct.unpack_from("<Q", core, at + 16)
        size, = struct.unpack_from("<Q", core, at + 40)
        if kind == 1 and start < end <= start + size:
            break
    with open(name, "r+b", 0) as file:
        os.pwrite(file.fileno(), struct.pack("<Q", 1 << 46), at + 40)
        os.pwrite(file.fileno(), struct.pack("<Q", end + (1 << 45)), where)
        run = subprocess.run([umem, "leaks", name], capture_output=True,
                             timeout=LIMIT, text=True)
        if run.returncode != 2 or "--force" not in run.stderr:
            sys.exit(f"{name}: a huge heap: {run.returncode} {run.stderr}")
        os.pwrite(file.fileno(), core[where:where + 8], where)
        os.pwrite(file.fileno(), core[at + 40:at + 48], at + 40)


def huge_sizes(name):
    """Records of buffers with requested sizes of some 2**63 or 2**64 bytes."""
    core = open(name, "rb").read()
    place_of = places(core)
    told = json.loads(subprocess.run(
        [umem, "log", "--json", name], capture_output=True).stdout or "[]")
    kept = [int(one["bufctl"], 16) for one in told
            if one["state"] == "allocated"]
    for record in kept[:1]:
        at = place_of(record + described(core, "bufctl_audit.size"))
        with open(name, "r+b", 0) as file:
            for size in (1 << 63, (1 << 64) - 1):
                os.pwrite(file.fileno(), struct.pack("<Q", size), at)
                for command in [["users"], ["leaks"], ["log"]]:
                    look(name, command, f"{name}: a size is {size:x}")
                told = json.loads(subprocess.run(
                    [umem, "users", "--json", name],
                    capture_output=True).stdout)
                if max(site["bytes"] for site in told["users"]) < size:
                    sys.exit(f"{name}: users lacks a block of {size:x} bytes")
            os.pwrite(file.fileno(), core[at:at + 8], at)
    return len(kept)


def odd_tags(name):
    """Caches whose tags seem to have a few bytes, or too many."""
    core = open(name, "rb").read()
    place_of = places(core)
    told = json.loads(subprocess.run([umem, "stat", "--json", name],
                                     check=True, capture_output=True).stdout)
    caches = [int(cache["address"], 16) for cache in told["caches"]]
    tag = described(core, "cache.tag_bytes")
    offset = described(core, "cache.tag_offset")
    for bytes in (1, 7, 8, 16, 1 << 31):
        with open(name, "r+b", 0) as file:
            for at in map(place_of, caches):
                old, = struct.unpack_from("<Q", core, at + offset)
                os.pwrite(file.fileno(), struct.pack("<I", bytes), at + tag)
                # Tags of 24 bytes are at the end of most chunks.
                os.pwrite(file.fileno(), struct.pack("<Q", old + 24 - bytes &
                                                     (1 << 64) - 1),
                          at + offset)
            what = f"{name}: tags have {bytes} bytes"
            # Only a tag of whole words is looked at.
            if look(name, ["verify"], what) == 1 and bytes % 8 != 0:
                sys.exit(f"{what}, and verify finds them corrupt")
            os.pwrite(file.fileno(), core, 0)


def totals(name):
    """Buffers in all, of all caches."""
    told = subprocess.run([umem, "stat", "--json", name], check=True,
                          capture_output=True).stdout
    return [cache["total"] for cache in json.loads(told)["caches"]]


def slab_twice(name):
    """A slab that two spans claim counts once."""
    core = open(name, "rb").read()
    before = totals(name)
    slabs = [(at, word) for at, word in owners(core) if not word & 1]
    # The spans may have several units, so the last is that of a slab of its
    # own; the words of a span are the same.
    (at, old), new = slabs[-1], slabs[0][1]
    assert old != new
    with open(name, "r+b", 0) as file:
        for one, word in slabs:
            if word == old:
                os.pwrite(file.fileno(), struct.pack("<Q", new), one)
        after = totals(name)
        if any(was < now for was, now in zip(before, after)):
            sys.exit(f"{name}: a slab counts twice: {before}, now {after}")
        os.pwrite(file.fileno(), core[slabs[0][0]:at + 8], slabs[0][0])


def unaligned_segments(name):
    """Segments whose bytes in the file are one byte off."""
    core = open(name, "rb").read()
    with open(name, "r+b", 0) as file:
        for at, kind, offset, _ in headers(core):
            if kind == 1:
                os.pwrite(file.fileno(), struct.pack("<Q", offset + 1), at + 8)
        for command in COMMANDS:
            look(name, command, f"{name}: unaligned segments")
        os.pwrite(file.fileno(), core[:65536], 0)


def unaligned_words(name):
    """Pointers of the library's variables that are a few bytes off."""
    core = open(name, "rb").read()
    place_of = places(core)
    with open(name, "r+b", 0) as file:
        for variable, bytes in (("&page_map", 64), ("&cpu_regions", 8),
                                ("&samples", 8), ("&domains", 8)):
            start = place_of(described(core, variable))
            for at in range(start, start + bytes, 8):
                word, = struct.unpack_from("<Q", core, at)
                if word < 4096:
                    continue
                os.pwrite(file.fileno(), struct.pack("<Q", word + 1), at)
                for command in COMMANDS[:4]:
                    look(name, command, f"{name}: {variable} + 1 at {at}")
                os.pwrite(file.fileno(), core[at:at + 8], at)


def empty_notes(name):
    """Lengths of notes that are 0, so that all that follows is misread."""
    core = open(name, "rb").read()
    with open(name, "r+b", 0) as file:
        for at in notes(core):
            os.pwrite(file.fileno(), bytes(8), at)
            look(name, ["stat"], f"{name}: empty note at {at}")
            os.pwrite(file.fileno(), core[at:at + 8], at)


def spoiled(dice, text):
    """The bytes of a text file, cut, changed or with something added."""
    at = dice.randrange(len(text) + 1)
    end = min(len(text), at + dice.choice([0, 1, 1, 20]))
    new = dice.choice([b"", b"\0", b"\t", b"\n", b"-1", b"1e300", b"nan",
                       b"99999999999999999999", b"[", b"*" * 50, b"\xff",
                       bytes([dice.randrange(256)]), text[end:end + 30]])
    return text[:at] + new + (text[end:] if dice.randrange(4) else b"")


def look_files(name, dice, n):
    """Saved looks and suppressions that are damaged."""
    saved = (b"umem leaks 1\ntime\t1763870000.123\n"
             b"site\t15000\t3\texact\tlose (main.c:7)\tmain < run\n"
             b"site\t4e6\t12.5\testimate\tmake\t\nend\t2\n")
    open("saved", "wb").write(saved)
    patterns = b"# known\nmain\n lib*.so*\n[a-z]?*foo\n"
    for i in range(n):
        open("spoiled", "wb").write(spoiled(dice, saved))
        look("saved", ["diff", "spoiled"], f"a spoiled look, {i}")
        open("spoiled", "wb").write(spoiled(dice, patterns))
        look(name, ["leaks", "--suppressions=spoiled"],
             f"spoiled suppressions, {i}")
    for old, new in ((b"\ntime\t", b"\ntime\t9" + 11 * b"0"),
                     (b"\nsite\t", b"\nsite\t9" + 15 * b"0")):
        open("spoiled", "wb").write(saved.replace(old, new))
        if look("saved", ["diff", "spoiled"], f"{new}") != 2:
            sys.exit(f"{new} is a number in a look")
    open("zeros", "wb").truncate(8 << 20)
    for target, words in ((name, ["leaks", "--suppressions=zeros"]),
                          ("saved", ["diff", "zeros"])):
        if look(target, words, "zeros") != 2:
            sys.exit(f"umem {words[0]} takes zeros for text")


def harm_program(name, dice, n):
    """The file of the program, with its symbols and lines, is damaged or cut."""
    program = os.path.abspath("small")
    whole = open(program, "rb").read()
    sections, = struct.unpack_from("<Q", whole, 40)
    file = "files" + program
    os.makedirs(os.path.dirname(file), exist_ok=True)
    for i in range(n):
        text = bytearray(whole)
        for _ in range(dice.choice([1, 1, 4])):
            start, end = dice.choice([(0, 64), (0, len(whole) - 8),
                                      (sections, len(whole) - 8)])
            at = dice.randrange(start, end)
            text[at:at + 8] = damage(dice, whole[at:at + 8])
        if dice.randrange(4) == 0:
            del text[dice.randrange(len(text)):]
        open(file, "wb").write(text)
        look(name, dice.choice(COMMANDS[:2] + COMMANDS[-1:]) +
             ["--sysroot=files"], f"a spoiled program, {i}")


for name in names:
    dice = random.Random(4711)
    for command in COMMANDS:
        look(name, command, "whole")
    huge_segments(name)
    empty_blocks(name)
    huge_blocks(name)
    unaligned_segments(name)
    unaligned_words(name)
    slab_twice(name)
    odd_tags(name)
    if huge_sizes(name) == 0 and name == "damageddefault":
        sys.exit(f"{name}: no records")
    cut(name, dice, rounds // 2)
    empty_notes(name)
    huge_heap(name)
    look_files(name, dice, rounds // 4)
    harm_program(name, dice, rounds)
    statuses = harm(name, dice, rounds)
    if rounds >= 50 and statuses != {0, 1, 2}:
        sys.exit(f"{name}: only statuses {statuses}; is it damaged at all?")
