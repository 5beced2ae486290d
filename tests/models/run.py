#!/usr/bin/env python3
"""run.py - the models in this folder, by Spin and herd7

	tests/models/run.py		verifies each model, and then expects
					that the bugs of each are found
	tests/models/run.py NAME ...	these models only
	tests/models/run.py --check	only compares the code with the models
	tests/models/run.py --accept	writes the sums of the code as it is

A model names the functions and macros that it stands for ("models: FILE NAME
...").  The sum of their text without comments and blanks is in the model: who
changes the code looks at the model, changes it if need be, and accepts the sum.
A bug is a macro BUG_NAME that the model tests, or, in a litmus test, an order
WEAK(NAME, order) that becomes relaxed.  A line "variants: NAME VALUE ..." has
herd7 examine the test with each value of a macro.  A mutant of tests/mutants that
is one of these bugs stands in the model, too ("catches: FILE FUNCTION BUG", then
the code before and after); it counts as caught without a run.  Where herd7 cannot
be had, the litmus tests are skipped.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).parent
TOP = FOLDER.parent.parent
COMMENT = re.compile(r'/\*.*?\*/', re.S)
SUM = re.compile(r'^ \* sum:.*$', re.M)
WEAK = re.compile(r'\bWEAK\((\w+), (\w+)\)')
LIMIT_S = 600
MEMORY_MIB = 6000
CATCHES = re.compile(r'^ \* catches: (\S+) (\w+) (BUG_\w+)\n'
                     r'((?: \*\t.*\n)+)', re.M)


def text_of(path, name):
    """Returns a function or macro of a file of C."""
    code = (TOP / path).read_text(encoding='utf-8')
    found = (re.search(rf'^{name}\(.*?^}}', code, re.M | re.S)
             or re.search(rf'^#define {name}\b(?:[^\n]*\\\n)*[^\n]*', code,
                          re.M))
    if not found:
        sys.exit(f'{path} has no {name}, which a model names')
    return ''.join(COMMENT.sub(' ', found[0]).split()).replace('\\', '')


def sum_of(model):
    texts = [text_of(path, name)
             for path, names in re.findall(r'^ \* models: (\S+) (.*)', model,
                                           re.M)
             for name in names.split()]
    return hashlib.sha256(''.join(texts).encode()).hexdigest()[:16]


def bugs_of(model):
    return sorted(set(re.findall(r'^#if.*\b(BUG_\w+)', model, re.M) +
                      [f'BUG_{name}' for name, _ in WEAK.findall(model)]))


def caught_mutants(model):
    """Yields (file, function, bug, code before, code after)"""
    for file, function, bug, text in CATCHES.findall(model):
        change = re.fullmatch('`([^`]*)` => `([^`]*)`',
                              ' '.join(text.replace(' *\t', ' ').split()))
        if not change:
            sys.exit(f'{file} {function}: no "`old` => `new`" after "catches:"')
        yield file, function, bug, change[1], change[2]


def check_mutants(name, model):
    """Are they changes of functions that the model names, and bugs it has?"""
    good = True
    named = {(file, function) for file, functions in
             re.findall(r'^ \* models: (\S+) (.*)', model, re.M)
             for function in functions.split()}
    if model.count(' * catches:') != len(CATCHES.findall(model)):
        sys.exit(f'{name}: "catches:" without code')
    for file, function, bug, old, _ in caught_mutants(model):
        if (file, function) not in named or bug not in bugs_of(model) or \
                ''.join(old.split()) not in text_of(file, function):
            print(f'{name}: {bug} is no longer the mutant of {function}() that '
                  'it names')
            good = False
    return good


def check(path, accept):
    model = path.read_text(encoding='utf-8')
    good = check_mutants(path.name, model)
    line = f' * sum: {sum_of(model)}'
    if accept:
        path.write_text(SUM.sub(line, model), encoding='utf-8')
    elif line not in model.splitlines():
        print(f'{path.name}: the code that it stands for has changed; see '
              'tests/models/README.md')
        return False
    return good


def run(*command, **options):
    done = subprocess.run(command, check=False, timeout=LIMIT_S, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          **options)
    if done.returncode:
        sys.exit(f'{" ".join(map(str, command))}: {done.stdout}')
    return done.stdout


def verify(path, bug):
    """Returns the number of states and of errors that Spin finds."""
    with tempfile.TemporaryDirectory() as folder:
        run('spin', '-a', *([f'-D{bug}'] if bug else []), path.resolve(),
            cwd=folder)
        # A bug is found soon: to compile is most of the time.
        run('cc', '-O0' if bug else '-O2', '-DSAFETY',
            f'-DMEMLIM={MEMORY_MIB}', '-w', '-o', 'pan', 'pan.c', cwd=folder)
        said = run('./pan', '-m100000', cwd=folder)
    states = re.search(r'(\d+) states, stored', said)
    errors = re.search(r'errors: (\d+)', said)
    if not states or not errors or 'Search not completed' in said and \
            errors[1] == '0':
        sys.exit(f'{path.name}: {said}')
    return int(states[1]), int(errors[1])


def verify_litmus(path, bug, herd):
    """Returns the number of outcomes and of wrong ones that herd7 finds."""
    model = WEAK.sub(lambda order: 'relaxed' if bug == f'BUG_{order[1]}'
                     else order[2], path.read_text(encoding='utf-8'))
    variants = re.search(r'^ \* variants: (\w+) (.*)', model, re.M)
    outcomes = wrong = 0
    for value in variants[2].split() if variants else ['0']:
        name = variants[1] if variants else 'VARIANT'
        with tempfile.NamedTemporaryFile(suffix='.litmus') as file:
            run('cpp', '-P', '-include', FOLDER / 'litmus.h',
                f'-D{bug or "NO_BUG"}', f'-D{name}={value}', '-', '-o', file.name,
                input=model)
            said = run(*herd, '-model', 'rc11.cat', file.name)
        found = re.search(r'^Positive: (\d+) Negative: (\d+)', said, re.M)
        if not found:
            sys.exit(f'{path.name}: {said}')
        wrong += int(found[1])
        outcomes += int(found[1]) + int(found[2])
    return outcomes, wrong


def examine(path, bug, herd):
    """Returns whether the model is as it should be."""
    begin = time.monotonic()
    states, errors = (verify(path, bug) if path.suffix == '.pml'
                      else verify_litmus(path, bug, herd))
    good = (errors != 0) == bool(bug)
    print(f'{"ok" if good else "FAIL"} {path.stem} {bug or "verified"}:'
          f' {states} states, {time.monotonic() - begin:.0f} s\n',
          end='', flush=True)
    return good


def main(arguments):
    options = {a for a in arguments if a.startswith('--')}
    names = set(arguments) - options
    paths = [path for path in sorted([*FOLDER.glob('*.pml'),
                                      *FOLDER.glob('*.litmus')])
             if not names or path.stem in names]
    results = [check(path, '--accept' in options) for path in paths]
    skipped = 0
    if not options:
        litmus = [path for path in paths if path.suffix == '.litmus']
        herd = litmus and subprocess.run(
            [FOLDER / 'herd.sh', TOP / 'build' / 'models'], check=False,
            stdout=subprocess.PIPE, text=True).stdout.split()
        if litmus and not herd:
            print('models: herd7 cannot be had')
            skipped = len(litmus)
            paths = [path for path in paths if path not in litmus]
        memory = os.sysconf('SC_AVPHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
        workers = min(os.cpu_count(), max(1, memory // (MEMORY_MIB << 20)))
        runs = [(path, bug, herd) for path in paths
                for bug in [None, *bugs_of(path.read_text(encoding='utf-8'))]]
        runs.sort(key=lambda words: words[1] is not None)
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            results += pool.map(lambda words: examine(*words), runs)
    print(f'{results.count(True)} passed, {results.count(False)} failed' +
          (f', {skipped} skipped' if skipped else ''))
    return not all(results)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
