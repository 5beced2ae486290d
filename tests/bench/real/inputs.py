"""inputs.py - writes the inputs of the real programs

write(FOLDER, PART) makes work.c, work.sql, work.smt2, work.ps and work.resp,
which are the same each time: all that varies comes from a generator of our
own.  PART, up to 1, is how much of the whole work.
"""

import os


class Random:
    """The same numbers everywhere, whatever Python's own module does."""

    def __init__(self, seed, part):
        self.state = seed
        self.part = part

    def below(self, n):
        self.state = (self.state * 6364136223846793005
                      + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def times(self, n):
        """0, 1 ... for n times, or the part of it that is wanted."""
        return range(max(1, int(n * self.part)))


def c_source(random):
    """Functions with loops, switches and structs for a compiler to chew."""
    yield "struct item { int key; double weight; struct item *next; };"
    yield "int opaque(int), table[1024];"
    for f in random.times(160):
        yield f"static int f{f}(int a, int b, struct item *list)\n{{"
        yield f"\tint sum = a * {random.below(100)} + b, i;"
        yield "\tfor (i = 0; i < (a & 63); i++) {"
        yield f"\t\tsum += table[(i * {random.below(31) + 1}) & 1023] ^ b;"
        yield f"\t\tif (sum % {random.below(17) + 2} == 0)"
        yield "\t\t\tsum -= opaque(sum);"
        yield "\t}"
        yield "\tfor (; list; list = list->next)"
        yield f"\t\tlist->weight *= 1.{random.below(9)} + list->key;"
        yield f"\tswitch (sum & {7 + 8 * random.below(2)}) {{"
        for case in range(6):
            callee = random.below(f) if f else 0
            call = f"f{callee}(b, sum, 0)" if f else "b"
            yield f"\tcase {case}: return {call} + {random.below(1000)};"
        yield "\t}"
        yield "\treturn sum;\n}"
    yield "int entry(int a, struct item *list)\n{\n\tint sum = 0;"
    for f in random.times(160):
        yield f"\tsum += f{f}(a, sum, list);"
    yield "\treturn sum;\n}"


def sql(random):
    yield "PRAGMA journal_mode=MEMORY;"
    yield "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, town INT);"
    yield "CREATE TABLE town(id INTEGER PRIMARY KEY, name TEXT, size REAL);"
    yield "BEGIN;"
    for i in range(500):
        yield f"INSERT INTO town VALUES({i}, 'town {i}', {random.below(9999)});"
    for i in random.times(30000):
        name = f"{random.below(99999):x} {random.below(99999):x}"
        yield (f"INSERT INTO person VALUES({i}, 'name {name}',"
               f" {random.below(500)});")
    yield "COMMIT;"
    yield "CREATE INDEX by_name ON person(name);"
    yield "CREATE INDEX by_town ON person(town);"
    for i in random.times(40):
        yield ("SELECT town.name, count(*), max(person.name) FROM person JOIN"
               " town ON person.town = town.id WHERE town.size >"
               f" {random.below(5000)} GROUP BY town.name ORDER BY 2, 1"
               " LIMIT 5;")
        yield (f"SELECT count(DISTINCT substr(name, {i % 5 + 6}, 3)),"
               " group_concat(town) IS NULL FROM person;")
        yield f"UPDATE person SET name = name || '{i}' WHERE town = {i};"
    yield "SELECT count(*), sum(length(name)) FROM person;"


def smt(random):
    """Latin squares with some more conditions, one after the other."""
    n = 7
    yield "(set-logic QF_LIA)"
    for _ in random.times(8):
        yield "(push 1)"
        for cell in (f"x{i}_{j}" for i in range(n) for j in range(n)):
            yield f"(declare-const {cell} Int)"
            yield f"(assert (and (>= {cell} 1) (<= {cell} {n})))"
        for i in range(n):
            row = " ".join(f"x{i}_{j}" for j in range(n))
            column = " ".join(f"x{j}_{i}" for j in range(n))
            yield f"(assert (distinct {row}))"
            yield f"(assert (distinct {column}))"
        for i in range(n):
            a, b = random.below(n), random.below(n)
            yield f"(assert (< (+ x{i}_{a} x{b}_{i}) (+ x{a}_{b} {n + 3})))"
        yield "(check-sat)"
        yield "(pop 1)"


def postscript(random):
    yield "%!PS-Adobe-3.0"
    for page in random.times(8):
        yield "/Helvetica findfont 9 scalefont setfont"
        for i in range(60):
            yield f"40 {780 - 12 * i} moveto"
            yield f"(page {page} line {i} {'abcdefgh ' * 8}) show"
        for i in range(1200):
            x, y = random.below(600), random.below(800)
            yield (f"{random.below(100)} 100 div 0.3 0.6 setrgbcolor newpath"
                   f" {x} {y} moveto {random.below(600)} {random.below(800)}"
                   f" {random.below(600)} {y} {x} {random.below(800)} curveto"
                   f" {'fill' if i % 3 == 0 else 'stroke'}")
        yield "showpage"


def resp(random):
    """Commands in the protocol of redis, for redis-cli --pipe."""
    def command(*words):
        return f"*{len(words)}\r\n" + "".join(
            f"${len(str(w))}\r\n{w}\r\n" for w in words)

    for i in random.times(150000):
        key = random.below(60000)
        value = "v" * random.below(400)
        kind = random.below(10)
        if kind < 4:
            yield command("SET", f"string:{key}", value)
        elif kind < 5:
            yield command("DEL", f"string:{random.below(60000)}")
        elif kind < 6:
            yield command("APPEND", f"string:{key}", value[:50])
        elif kind < 7:
            yield command("HSET", f"hash:{key % 3000}", f"f{i % 40}", value)
        elif kind < 8:
            yield command("RPUSH", f"list:{key % 900}", value[:80])
        elif kind < 9:
            yield command("LPOP", f"list:{key % 900}")
        else:
            yield command("ZADD", f"set:{key % 500}", i % 1000, f"m{i % 90}")


INPUTS = {
    "work.c": (c_source, "\n"),
    "work.sql": (sql, "\n"),
    "work.smt2": (smt, "\n"),
    "work.ps": (postscript, "\n"),
    "work.resp": (resp, ""),
}


def write(folder, part):
    os.makedirs(folder, exist_ok=True)
    for name, (lines, end) in INPUTS.items():
        path = f"{folder}/{name}"
        with open(path, "w", encoding="ascii", newline="") as file:
            file.writelines(line + end for line in lines(Random(len(name), part)))
