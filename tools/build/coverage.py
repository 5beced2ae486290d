#!/usr/bin/env python3
"""coverage.py - lines and branches that the tests of make coverage executed

	tools/build/coverage.py BUILD		the table by folder
	tools/build/coverage.py --part BUILD	the same for a part of the tests
	tools/build/coverage.py --lines FILE	lines and branches of FILE that no
						test executed, of the last run

Runs in the tree's root.  BUILD/profiles has a folder for each name of a test,
with the counters of tools/build/coverage.c.  The exit status is 1 if the library
as a whole is below the percentages in LEAST, or in LEAST_OF_PART.

A branch is one of the two outcomes of a condition that the compiler does not
know.  BUILD/coverage/total.json has the counts of each line and branch, and
BUILD/coverage/map.json the names of the tests that executed each line, for
make mutants; a part of the tests leaves map.json out.
"""

import collections
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys

# Of lines and of branches, slightly below the figures that were measured last.
# The part is that of the row "clang" of matrix.sh.
LEAST, LEAST_OF_PART = (96.5, 90.5), (93, 85)

FOLDERS = re.compile(r'(umem|magazine|vmem|tools/inspect)/')


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True,
                          stderr=subprocess.DEVNULL).stdout


def export(build, folder, *options):
    """The text of llvm-cov for the counters of a folder, or None"""
    files = glob.glob(glob.escape(folder) + '/**/*.profraw', recursive=True)
    if not files:
        return None
    profile = f'{build}/coverage/{os.path.basename(folder)}.profdata'
    with open(f'{profile}.list', 'w', encoding='utf-8') as out:
        out.write('\n'.join(files))
    run('llvm-profdata', 'merge', '-sparse', '-o', profile,
        f'-input-files={out.name}')
    objects = [f'{build}/{name}' for name in
               ('unit', 'umem', 'libumem_malloc.so.1', 'libumem_rcu.so.1')]
    text = run('llvm-cov', 'export', f'-instr-profile={profile}', *options,
               objects[0], *(f'-object={name}' for name in objects[1:]))
    os.remove(profile)
    os.remove(out.name)
    return text.decode()


def lines_of(text):
    """{file: {line: count}} of the text in the format of lcov"""
    files = {}
    for line in text.splitlines():
        word, _, rest = line.partition(':')
        if word == 'SF':
            name = os.path.relpath(rest)
            counts = files.setdefault(name, {}) if FOLDERS.match(name) else {}
        elif word == 'DA':
            number, count = map(int, rest.split(',')[:2])
            counts[number] = max(count, counts.get(number, 0))
    return files


def branches_of(text):
    """{file: {(line, column, outcome): count}}"""
    files = {}
    for entry in json.loads(text)['data'][0]['files']:
        name = os.path.relpath(entry['filename'])
        if not FOLDERS.match(name):
            continue
        counts = files.setdefault(name, collections.Counter())
        for line, column, _, _, true, false, *_ in entry['branches']:
            counts[line, column, 'true'] += true
            counts[line, column, 'false'] += false
    return files


def measure(build, part):
    profiles = f'{build}/profiles'
    os.makedirs(f'{build}/coverage', exist_ok=True)
    lines = lines_of(export(build, profiles, '-format=lcov'))
    branches = branches_of(export(build, profiles, '-skip-functions'))
    with open(f'{build}/coverage/total.json', 'w', encoding='utf-8') as out:
        json.dump({name: {
            'lines': list(lines[name].items()),
            'branches': [[*key, count] for key, count in
                         branches.get(name, {}).items()]
        } for name in lines}, out)
    if part:
        return lines, branches

    tests = sorted(os.listdir(profiles))
    executed = {name: collections.defaultdict(list) for name in lines}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        texts = pool.map(lambda test: export(build, f'{profiles}/{test}',
                                             '-format=lcov'), tests)
        for number, text in enumerate(texts):
            for name, counts in lines_of(text or '').items():
                for line, count in counts.items():
                    if count:
                        executed[name][line].append(number)
    with open(f'{build}/coverage/map.json', 'w', encoding='utf-8') as out:
        json.dump({'tests': tests, 'lines': executed}, out)
    return lines, branches


def table(lines, branches):
    """Prints the table; returns the percentages of the library"""
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for name in lines:
        counts = lines[name].values(), branches.get(name, {}).values()
        library = '' if name.startswith('tools') else 'the library'
        for row in filter(None, (os.path.dirname(name), library)):
            for i, values in enumerate(counts):
                sums[row][2 * i] += sum(1 for n in values if n)
                sums[row][2 * i + 1] += len(values)

    def percent(part, whole):
        return 100 * part / whole if whole else 100

    print(f'{"":24}{"lines":>17}{"branches":>24}')
    for row in sorted(sums, key=lambda row: (row[0] == 't', row)):
        a, b, c, d = sums[row]
        print(f'{row:24}{a:>7} of{b:>6} {percent(a, b):5.1f} %'
              f'{c:>7} of{d:>6} {percent(c, d):5.1f} %')
    a, b, c, d = sums['the library']
    return percent(a, b), percent(c, d)


def show_missing(name):
    newest = max(glob.glob('build*/coverage/total.json'),
                 key=os.path.getmtime)
    with open(newest, encoding='utf-8') as file:
        entry = json.load(file)[name]
    zero = {line for line, count in entry['lines'] if not count}
    half = collections.defaultdict(list)
    for line, column, outcome, count in entry['branches']:
        if not count and line not in zero:
            half[line].append(f'{column} never {outcome}')
    with open(name, encoding='utf-8') as file:
        for number, text in enumerate(file, 1):
            if number in zero or number in half:
                print(f'{number:5}{"#" if number in zero else "+"} '
                      f'{text.rstrip()}')
            if number in half:
                print(f'\t/* column {", ".join(half[number])} */')


if len(sys.argv) == 3 and sys.argv[1] == '--lines':
    show_missing(os.path.relpath(sys.argv[2]))
elif len(sys.argv) == 2 or len(sys.argv) == 3 and sys.argv[1] == '--part':
    part = sys.argv[1] == '--part'
    reached = table(*measure(sys.argv[-1], part))
    least = LEAST_OF_PART if part else LEAST
    print('required of the library: {} % of lines, {} % of branches'.format(
        *least))
    sys.exit(reached[0] < least[0] or reached[1] < least[1])
else:
    sys.exit(__doc__)
