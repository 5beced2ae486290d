#!/usr/bin/env python3
"""code_lines.py - counts lines of C without blank lines and comments

	tools/build/code_lines.py		compares with the budgets below
	tools/build/code_lines.py FILE ...	prints the count of each file

Runs in the tree's root.  A budget is the most code that the folders may have;
a change that needs more lines removes others.  It falls when code goes: it is
the count, rounded up to the next 100.
"""

import glob
import re
import sys

BUDGETS = [
    (('umem', 'magazine', 'vmem'), 29300),
    (('tools/inspect',), 17000),
]
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def count(path):
    with open(path, encoding='utf-8') as file:
        code = COMMENT.sub(lambda m: '""' if m[0][0] == '"' else ' ',
                           file.read())
    return sum(1 for line in code.splitlines() if line.strip())


def check_budgets():
    failed = False
    for folders, budget in BUDGETS:
        lines = sum(count(path) for folder in folders
                    for path in glob.glob(folder + '/**/*.[ch]',
                                          recursive=True))
        print(f'{" ".join(folders)}: {lines} lines of code of {budget}')
        failed |= lines > budget
    return failed


for name in sys.argv[1:]:
    print(count(name), name)
sys.exit(len(sys.argv) == 1 and check_budgets())
