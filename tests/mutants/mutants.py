#!/usr/bin/env python3
"""mutants.py - changes single statements, and looks whether a test fails

	tests/mutants/mutants.py BUILD DEBUG_BUILD [N [SEED [FILES...]]]

DEBUG_BUILD, if it is not empty, is the build in which the tests run again if a
mutant survives.  Runs in the tree's root; README.md beside it describes the changes, the choice of
the tests and the results.
"""

import collections
import concurrent.futures
import glob
import hashlib
import json
import os
import platform
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
import time

sys.path.insert(0, 'tests/models')
sys.dont_write_bytecode = True
import run as models  # pylint: disable=wrong-import-position

COVERAGE = 'build-coverage/coverage/map.json'
SURVIVORS = 'tests/mutants/survivors.md'
WORK = 'build-mutants'
JOBS = int(os.environ.get('JOBS', '2'))
# Seconds of tests for one mutant; the fastest come first.
BUDGET = int(os.environ.get('BUDGET', '60'))
# Below this many KiB of available memory, the test that runs is ended.
MEMORY_LOW = 2 << 20
FILES = ['magazine/*.[ch]', 'umem/slab/*.[ch]', 'umem/cache/*.[ch]',
         'umem/rcu/*.c', 'umem/upkeep/*.c', 'vmem/heap*.c', 'vmem/arena*.c',
         'vmem/segment.c', 'vmem/freelist.c', 'vmem/meta.c',
         'tools/inspect/base/*.c', 'tools/inspect/model/*.c',
         'tools/inspect/target/*.c']

# A simple statement on a line of its own, without the white space before it.
STATEMENT = re.compile(r'(?!return|goto|break|continue|case|default|else)'
                       r'[\w(*&][^{};]*;$')
# A declaration, with or without a value.
DECLARATION = re.compile(r'((static|const|struct|unsigned|union|enum) )'
                         r'|\w+ \*?\w+( =|;|,|\[)')
ASSERTED = re.compile(r'assert|_check\w*\(')
ORDER = re.compile('__ATOMIC_(ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)')
# Of x86-64, only these have another instruction if the order is weaker.
X86_64_ORDER = re.compile('store_n.*__ATOMIC_SEQ_CST')
OPERATORS = [  # kind, pattern, replacements
    ('off by one', r'(?<=[\w)\]] )(<|>)(?= [\w(*&])', r'\1='),
    ('off by one', r'(?<=[\w)\]] )(<|>)=(?= [\w(*&])', r'\1'),
    ('off by one', r'(?<=[\w)\]]) [+-] 1\b(?!\w|\.)', ''),
    ('off by one', r'(?<=[\w)\]] )(\+|-) 1\b(?!\w|\.)', r'\1 2'),
    ('half a condition', r' && [^&|()]+(?=\)| &&)', ''),
    ('half a condition', r' \|\| [^&|()]+(?=\)| \|\|)', ''),
    ('other sign', r'(?<=[\w)\]] )([+-])=(?= )', None),
]
FREE = re.compile(r'\b\w*(free|give|release|unmap|destroy|purge|discard)\w*\(')
UNLOCK = re.compile(r'\b\w*(unlock|lock_release)\w*\(')

Mutant = collections.namedtuple('Mutant', 'kind file line function old new')


def without_comments(text):
    """The same text with blanks in place of comments and strings"""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"',
                  lambda m: re.sub(r'[^\n]', ' ', m[0]), text, flags=re.S)


def changes_of(code, following, is_tool):
    """Yields (kind, old, new) for a line; old may include the next one"""
    text = code.strip()
    if text == '' or text[0] == '#' or ASSERTED.search(text):
        return
    if platform.machine() != 'x86_64' or X86_64_ORDER.search(code):
        for m in ORDER.finditer(code):
            yield 'weaker order', code, \
                code[:m.start()] + '__ATOMIC_RELAXED' + code[m.end():]
    for kind, pattern, by in OPERATORS:
        for m in re.finditer(pattern, code):
            new = m.expand(by) if by is not None else '-+'[m[1] == '-'] + '='
            yield kind, code, code[:m.start()] + new + code[m.end():]
    m = re.fullmatch(r'(\s*(?:\} else )?(?:if|while) )\((.*)\)( \{)?', code)
    if m:
        yield 'negated', code, f'{m[1]}(!({m[2]})){m[3] or ""}'
        if re.match('return|goto|break|continue', following.strip()):
            yield 'skipped check', code, f'{m[1]}(0 && ({m[2]})){m[3] or ""}'
    if not STATEMENT.match(text) or DECLARATION.match(text):
        return
    kind = 'dropped fence' if 'fence(' in text else \
        'lost unlock' if UNLOCK.search(text) else \
        'lost free' if FREE.search(text) else 'lost statement'
    yield kind, code, re.sub(r'\S.*', ';', code)
    indent, second = re.match(r'\s*', code)[0], following.strip()
    if following.startswith(indent + second[:1]) and second and \
            STATEMENT.match(second) and not DECLARATION.match(second) and \
            not ASSERTED.search(second) and may_depend(text, second, is_tool):
        kind = 'freed too early' if FREE.search(second) else 'swapped'
        yield kind, code + '\n' + following, following + '\n' + code


def may_depend(first, second, is_tool):
    """May the order of two statements matter?  That of two frees does not, nor
    that of two functions of the command whose results are used."""
    if '(' in first and '(' in second and not (
            is_tool and ' = ' in first and ' = ' in second):
        return not FREE.search(first)
    return any(re.split(r' [-+|&]?= ', one)[0].rstrip(';+-') in other
               for one, other in ((first, second), (second, first)))


def mutants_of(name, executed):
    with open(name, encoding='utf-8') as file:
        whole = file.read()
    lines = whole.splitlines()
    codes = without_comments(whole).splitlines()
    function, previous = '', ';'
    for i, code in enumerate(codes[:-1]):
        m = re.match(r'(\w+)\(', code)
        function = m[1] if m else function
        starts = re.search(r'([;{}:]|^|\)|else)\s*$', previous)
        previous = code if code.strip() else previous
        if not executed(i + 1) or code[:1] not in ('\t', ' ') or \
                re.search(r'_check(_locked)?$', function):
            continue
        for kind, old, new in changes_of(code, codes[i + 1],
                                         name.startswith('tools/')):
            # A part of a statement is not deleted.
            if kind.startswith(('lost', 'swapped', 'freed', 'dropped')) and \
                    not starts:
                continue
            n = old.count('\n') + 1
            source = lines[i:i + n]
            if source == codes[i:i + n]:
                yield Mutant(kind, name, i + 1, function, old, new)


def short(text):
    return ' '.join(text.split())


def key(mutant):
    return (mutant.file, mutant.function, short(mutant.old),
            short(mutant.new))


def known_survivors():
    """The keys of the mutants that survivors.md explains"""
    with open(SURVIVORS, encoding='utf-8') as file:
        text = ' '.join(file.read().split())
    return {tuple(short(part) for part in found) for found in re.findall(
        r'- `([^`]+)` `([^`]*)`: `([^`]*)` => `([^`]*)`', text)}


def caught_by_models():
    """{key of a mutant: the model and its bug that is this mutant}"""
    found = {}
    for path in sorted([*models.FOLDER.glob('*.pml'),
                        *models.FOLDER.glob('*.litmus')]):
        text = path.read_text(encoding='utf-8')
        if not models.check_mutants(path.name, text):
            sys.exit(1)
        for file, function, bug, old, new in models.caught_mutants(text):
            found[file, function, short(old), short(new)] = \
                f'{path.stem} {bug}'
    return found


def choose(coverage, patterns, n, seed):
    """n mutants; every kind gets the same chance"""
    explained = known_survivors()
    kinds = collections.defaultdict(list)
    for name in sorted({f for p in patterns for f in glob.glob(p)}):
        for mutant in mutants_of(name, lambda line, name=name:
                                 coverage.tests(name, line)):
            if key(mutant) not in explained:
                kinds[mutant.kind].append(mutant)
    rng = random.Random(seed)
    for mutants in kinds.values():
        rng.shuffle(mutants)
    chosen = []
    while len(chosen) < n and any(kinds.values()):
        kind = rng.choice(sorted(k for k in kinds if kinds[k]))
        chosen.append(kinds[kind].pop())
    return chosen


class Coverage:
    """The names of the tests that executed a line when make coverage ran"""

    def __init__(self):
        with open(COVERAGE, encoding='utf-8') as file:
            data = json.load(file)
        self.names, self.lines = data['tests'], data['lines']
        self.time = os.path.getmtime(COVERAGE)

    def tests(self, name, line):
        lines = self.lines.get(name, {})
        numbers = lines.get(str(line), [])
        # The numbers of the lines may have changed.
        if os.path.getmtime(name) > self.time:
            numbers = {n for numbers in lines.values() for n in numbers}
        return [self.names[n] for n in numbers]


def memory_is_low():
    with open('/proc/meminfo', encoding='ascii') as file:
        return int(re.search(r'MemAvailable: +(\d+)', file.read())[1]) \
            < MEMORY_LOW


def debug_of(build):
    """The value of make's variable for a build folder"""
    return '1' if build.endswith('-debug') else ''


def run(tree, build, limit, *command):
    """The status of a command and its children, which end with it; or a word.
    A namespace of processes ends all of them when its first one is ended."""
    prefix = ['unshare', '--fork', '--pid', '--kill-child', '--mount-proc',
              'sh', '-c', 'echo 1000 >/proc/self/oom_score_adj; "$@"; exit $?',
              'sh']
    environment = dict(os.environ, CK_DEFAULT_TIMEOUT='30', TEST_JOBS='1',
                       DEBUG=debug_of(build))
    with subprocess.Popen(prefix + list(command), cwd=tree, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + limit
        while process.poll() is None:
            word = 'time' if time.monotonic() > end else \
                'memory' if memory_is_low() else None
            if word:
                process.kill()
                process.wait()
                return word
            time.sleep(0.05)
    return process.returncode


class Tests:
    """The tests, how long each takes, and whether it passes without a mutant"""

    def __init__(self, build, base):
        suites = subprocess.run([f'{build}/unit', '--list'], check=True,
                                stdout=subprocess.PIPE).stdout
        self.suites = set(suites.decode().split())
        self.build, self.base = build, base
        self.times, self.lock, self.sound = {}, threading.Lock(), set()
        self.installs = {os.path.basename(path)[:-3] for path in
                         glob.glob('tests/programs/install/*.sh')}
        self.path = f'{WORK}/times-{build}.json'
        if os.path.exists(self.path):
            with open(self.path, encoding='utf-8') as file:
                self.times = json.load(file)

    def command(self, test):
        if test in self.suites:
            return [f'{self.build}/unit', test]
        return ['tests/run_tests.sh', self.build, 'programs', '--', test]

    def seconds(self, test):
        return self.times.get(test, 1 if test in self.suites else 5)

    def are_of(self, mutant, covering):
        """Those that can notice the mutant, the best ones first"""
        is_tool = mutant.file.startswith('tools/')
        stem = os.path.basename(mutant.file).split('.')[0]
        words = set(stem.split('_'))
        found = [test for test in covering
                 if test not in self.installs
                 and not (is_tool and test in self.suites)]
        return sorted(found, key=lambda test: (
            not stem.startswith(test), test not in self.suites,
            words.isdisjoint(test.split('_')), self.seconds(test)))

    def passes(self, tree, test):
        """None if the test passes in the tree; else the word for its end"""
        limit = 10 + 10 * self.seconds(test)
        start = time.monotonic()
        status = run(tree, self.build, limit, *self.command(test))
        if status == 0:
            self.times[test] = min(self.times.get(test, 1e9),
                                   time.monotonic() - start)
            return None
        return status if isinstance(status, str) else 'failed'

    def catches(self, tree, test):
        """The same, but a test that fails without a mutant, too, says nothing.
        After a time limit it runs without the mutant each time, because the
        load of the machine changes."""
        for _ in range(2):
            word = self.passes(tree, test)
            if word is None or word == 'failed' and test in self.sound:
                return word
            with self.lock:
                if self.passes(self.base, test) is None:
                    self.sound.add(test)
                    return word
        return None


def code_hash(tree, build, name):
    """A hash of the code and the data of what a file is a part of"""
    binary = f'{tree}/{build}/' + target_of(name)
    # The build ID is a hash of the lines of the source, too.
    subprocess.run(['strip', '-R', '.note.gnu.build-id', '-o',
                    binary + '.stripped', binary], check=True)
    with open(binary + '.stripped', 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def target_of(name):
    return 'umem' if name.startswith('tools/') else 'libumem_rcu.so.1' \
        if name == 'umem/rcu/rcu.c' else 'libumem_malloc.so.1'


def make(tree, build, *targets):
    return subprocess.run(
        ['timeout', '600', 'make', '-s', '-j1', f'DEBUG={debug_of(build)}',
         *(f'{build}/{target}' for target in targets)], cwd=tree,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False).returncode == 0


def try_mutant(tree, tests, mutant, covering):
    """A word for the result, and the test that caught the mutant"""
    path = f'{tree}/{mutant.file}'
    with open(path, encoding='utf-8') as file:
        whole = file.read()
    lines = whole.split('\n')
    n = mutant.old.count('\n') + 1
    lines[mutant.line - 1:mutant.line - 1 + n] = [mutant.new]
    before = code_hash(tree, tests.build, mutant.file)
    try:
        with open(path, 'w', encoding='utf-8') as file:
            file.write('\n'.join(lines))
        if not make(tree, tests.build, target_of(mutant.file)):
            return 'not compiled', ''
        if code_hash(tree, tests.build, mutant.file) == before:
            return 'same code', ''
        if not mutant.file.startswith('tools/'):
            make(tree, tests.build, 'unit', 'libumem.so.1', 'libumem.a',
                 'libumem_malloc.a')
        spent, nleft = 0, 0
        for test in tests.are_of(mutant, covering):
            if spent + tests.seconds(test) > BUDGET:
                nleft += 1
                continue
            spent += tests.seconds(test)
            word = tests.catches(tree, test)
            if word:
                return word, test
        return 'survived', f'{nleft} tests left out' if nleft else ''
    finally:
        with open(path, 'w', encoding='utf-8') as file:
            file.write(whole)
        if not make(tree, tests.build, target_of(mutant.file)):
            sys.exit(f'mutants.py: {tree} no longer builds')


def copy_tree(build, tree):
    """A copy of the files that git knows and of the build folder"""
    shutil.rmtree(tree, ignore_errors=True)
    os.makedirs(tree)
    subprocess.run(f'git ls-files -z | tar -c --null -T - | tar -x -C {tree}'
                   f' && cp -a {build} {tree}', shell=True, check=True)


class Trees:
    """Copies of the tree with a build, for one mutant each at a time"""

    def __init__(self, build):
        self.free = queue.Queue()
        for name in ('base', *range(JOBS)):
            copy_tree(build, f'{WORK}/{build}-{name}')
        for name in range(JOBS):
            self.free.put(f'{WORK}/{build}-{name}')
        self.tests = Tests(build, f'{WORK}/{build}-base')

    def try_mutant(self, mutant, covering):
        tree = self.free.get()
        try:
            return try_mutant(tree, self.tests, mutant, covering)
        finally:
            self.free.put(tree)
            with open(self.tests.path, 'w', encoding='utf-8') as out:
                json.dump(self.tests.times, out)


def main(build, debug_build='', n=20, seed=1, *patterns):
    coverage = Coverage()
    builds = [Trees(name) for name in (build, debug_build) if name]
    by_model = caught_by_models()
    seen = collections.Counter()
    survivors = []

    def one(mutant):
        if key(mutant) in by_model:
            result = 'model', by_model[key(mutant)]
        else:
            covering = coverage.tests(mutant.file, mutant.line)
            result = builds[0].try_mutant(mutant, covering)
            if result[0] == 'survived' and debug_build:
                word, test = builds[1].try_mutant(mutant, covering)
                if word in ('failed', 'time', 'memory'):
                    result = 'assertion', test
        with open(f'{WORK}/results.jsonl', 'a', encoding='utf-8') as out:
            out.write(json.dumps([*mutant, *result]) + '\n')
        return mutant, result

    chosen = choose(coverage, patterns or FILES, int(n), int(seed))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for number, (mutant, (word, test)) in enumerate(
                pool.map(one, chosen), 1):
            seen[mutant.kind, word] += 1
            print(f'{number}/{len(chosen)} {word} {test}: {mutant.kind}, '
                  f'{mutant.file}:{mutant.line}', flush=True)
            if word == 'survived':
                survivors.append(mutant)
    print_results(seen, survivors)


def print_results(seen, survivors):
    words = ['failed', 'time', 'memory', 'assertion', 'model', 'survived',
             'same code', 'not compiled']
    print('\n' + ' ' * 18 + ''.join(f'{w:>13}' for w in words))
    for kind in sorted({kind for kind, _ in seen}):
        print(f'{kind:18}' + ''.join(f'{seen[kind, w]:13}' for w in words))
    print('all'.ljust(18) + ''.join(
        f'{sum(n for (_, w), n in seen.items() if w == word):13}'
        for word in words))
    for mutant in survivors:
        print(f'\nsurvived: {mutant.file}:{mutant.line}, '
              f'{mutant.function}(), {mutant.kind}')
        for sign, text in (('-', mutant.old), ('+', mutant.new)):
            print('\n'.join(sign + line for line in text.split('\n')))
        print('- `{}` `{}`: `{}` => `{}`'.format(*key(mutant)))


main(*sys.argv[1:])
