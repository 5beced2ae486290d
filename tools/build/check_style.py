#!/usr/bin/env python3
"""check_style.py - measures the language of comments and documents

	tools/build/check_style.py

Runs in the tree's root and prints one line for each breach of these rules:

- Free relative clauses ("what", "who", "whoever", "whatever", "whose") are at
  most LIMIT for each 100 sentences, in every folder and in every document.  A
  document with fewer than 50 sentences may have one.
- A function of the library or of the command has a name of more than five
  letters, because shorter names say nothing in a stack trace.  Names of the C
  library and of operators are excepted, and a name that is its module's.
- No line of a comment is longer than 80 columns.

With --worst it also prints each sentence that counts."""

import collections
import glob
import os
import re
import subprocess
import sys

LIMIT = 2.0
COLUMNS = 80
SHORT = 5
# What a test's program is expected to print, for tests/run_tests.sh.
EXPECTED = re.compile(r'( \*|//) test (no )?stderr: ')
# Names that a program expects of us.
STANDARD = {'main', 'free', 'cfree', 'fork', 'vfork', 'clone', 'prctl',
            'unshare', 'setns', 'open'}

CLAUSE = re.compile(r'\b(what|who|whoever|whatever|whose)\b', re.I)
QUESTION = re.compile(r'^(what|who|whose)\b[^?]*\?$', re.I)
# Strings are matched first, so that a comment inside one is none.
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
                   r'|/\*.*?\*/|//[^\n]*', re.S)
DEFINITION = re.compile(r'^([a-z_]\w*)\(', re.M)


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


def files(*patterns):
    return sorted(name for pattern in patterns for name in glob.glob(pattern))


def c_comments(text):
    """(line number, text) of each comment of a C file."""
    for token in TOKEN.finditer(text):
        if token.group().startswith(('/*', '//')):
            yield text.count('\n', 0, token.start()) + 1, token.group()


def hash_comments(text):
    """(line number, text) of each block of lines that begin with '#'."""
    block, start = [], 0
    for number, line in enumerate(text.split('\n') + [''], 1):
        found = re.match(r'\s*#(?!!)(.*)', line)
        if found:
            start = start if block else number
            block.append(found.group(1))
        elif block:
            yield start, '\n'.join(block)
            block = []


def without_code(text):
    """Markdown without its code."""
    text = re.sub(r'^```.*?^```', '\n\n', text, flags=re.S | re.M)
    return re.sub(r'`[^`]*`', 'NAME', text)


def without_macros(text):
    """A man page without its examples and the arguments of its macros."""
    text = re.sub(r'^\.Bd.*?^\.Ed', '\n', text, flags=re.S | re.M)
    text = re.sub(r'^\.(Pp|It|Sh|Ss|El|Bl|Nd)\b.*', '\n\n', text, flags=re.M)
    return re.sub(r'^\.[A-Z][a-z].*', 'NAME', text, flags=re.M)


def paragraphs(path):
    text = read(path)
    if path.endswith(('.c', '.h', '.cc')):
        for _, comment in c_comments(text):
            yield re.sub(r'^[ \t]*(/\*+|\*+/|\*|//)|\*/$', ' ', comment,
                         flags=re.M)
    elif path.endswith('.md'):
        yield from re.split(r'\n\s*\n|\n(?=\s*[-*|#])', without_code(text))
    elif re.search(r'\.\d$', path):
        yield from re.split(r'\n\s*\n', without_macros(text))
    else:
        yield from (comment for _, comment in hash_comments(text))


def sentences(path):
    for paragraph in paragraphs(path):
        for part in re.split(r'\n\s*\n', paragraph):
            for sentence in re.split(r'(?<=[.:;?!])\s+', ' '.join(part.split())):
                if len(re.findall(r'[A-Za-z_]\w*', sentence)) >= 4:
                    yield sentence


def measure(name, paths, breaches, counted):
    """The clauses of a group of files."""
    total = hits = 0
    for path in paths:
        for sentence in sentences(path):
            total += 1
            found = len(CLAUSE.findall(sentence))
            if found and not QUESTION.match(sentence):
                hits += found
                counted.append('%s: %s' % (path, sentence))
    allowed = max(1, total * LIMIT / 100)
    if hits > allowed:
        breaches.append('%s: %d free relative clauses in %d sentences' %
                        (name, hits, total))


def check_names(path, breaches):
    module = os.path.basename(path)[:-2]
    # Comments give way to as many newlines.
    text = TOKEN.sub(lambda token: '\n' * token.group().count('\n'), read(path))
    for found in DEFINITION.finditer(text):
        name = found.group(1)
        if len(name) <= SHORT and not name.startswith('_Z') and \
                name not in STANDARD | {module}:
            breaches.append('%s:%d: the name %s() is too short' %
                            (path, text.count('\n', 0, found.start()) + 1, name))


def check_columns(path, breaches):
    text = read(path)
    lines = text.split('\n')
    comments = c_comments if path.endswith(('.c', '.h', '.cc')) else hash_comments
    for start, comment in comments(text):
        for number in range(start, start + comment.count('\n') + 1):
            line = lines[number - 1]
            if len(line.expandtabs(8)) > COLUMNS and not EXPECTED.match(line):
                breaches.append('%s:%d: a comment beyond %d columns' %
                                (path, number, COLUMNS))


def main():
    tracked = subprocess.run(['git', 'ls-files'], capture_output=True,
                             text=True).stdout.split()
    tracked = tracked or [os.path.join(folder, name)[2:] for folder, _, names in
                          os.walk('.') for name in names]
    tracked = [path for path in tracked if os.path.isfile(path)]
    sources = [path for path in tracked if path.endswith(('.c', '.h', '.cc'))]
    scripts = [path for path in tracked
               if path.endswith(('.sh', '.py')) or path == 'Makefile']
    pages = [path for path in tracked if re.match(r'man/.*\.\d$', path)]
    documents = [path for path in tracked if path.endswith('.md')]

    breaches, counted = [], []
    folders = collections.defaultdict(list)
    for path in sources + scripts:
        folders[os.path.dirname(path) or '.'].append(path)
    for folder in sorted(folders):
        measure(folder, folders[folder], breaches, counted)
    for path in pages + documents:
        measure(path, [path], breaches, counted)
    for path in sources:
        if path.startswith(('vmem/', 'magazine/', 'umem/', 'tools/')):
            check_names(path, breaches)
    for path in sources + scripts:
        check_columns(path, breaches)

    if '--worst' in sys.argv[1:]:
        print('\n'.join(counted))
    print('\n'.join(breaches), end='\n' if breaches else '', file=sys.stderr)
    return bool(breaches)


if __name__ == '__main__':
    sys.exit(main())
