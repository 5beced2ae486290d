#!/usr/bin/env python3
"""check_constants.py - compares the tables of constants with the code

	tools/build/check_constants.py

Runs in the tree's root and prints one line for each breach of these rules.  A
table of constants is a table of a README.md whose first two columns are "name"
or "constant", and "value".

- Each name in capitals of the first column is a constant of the folder: a
  macro, or a member of an enum.  Names with commas between them have their
  values in the same order.  A file behind a name, in parentheses, is the only
  one that may define it.
- The value is that of the code: an integer with an optional unit (KiB, MiB,
  GiB, TiB, us, ms, s), or 1/N for a constant N.  Words may follow it.
- Names in small letters are variables, whose initial values are compared."""

import glob
import os
import re
import sys

UNITS = {'KiB': 1 << 10, 'MiB': 1 << 20, 'GiB': 1 << 30, 'TiB': 1 << 40,
         'ns': 1, 'us': 1000, 'ms': 10 ** 6, 's': 10 ** 9}
DEFINITION = re.compile(
    r'^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+((?:.*\\\n)*.*)'
    r'|^\s+([A-Z][A-Z0-9_]+) = ([^,\n]+),?'
    r'|^(?:static |const )*(?:size_t|unsigned|u?int\w*_t) (\w+) = ([^;\n]+);',
    re.M)
TABLE = re.compile(r'^\| *(?:name|constant) *\| *value *\|.*\n\|[-| ]+\|\n'
                   r'((?:\|.*\n)*)', re.M)
NAME = re.compile(r'`(\w+)`(?: \(`([\w./]+)`\))?')


def read(path):
    with open(path, encoding='utf-8') as file:
        return re.sub(r'/\*.*?\*/', ' ', file.read(), flags=re.S)


def definitions():
    """{name: [(path, expression)]} of the library and the command."""
    found = {}
    for folder in ('vmem', 'magazine', 'umem', 'umem/*', 'tools/inspect/*'):
        for path in sorted(glob.glob(folder + '/*.[ch]')):
            for match in DEFINITION.finditer(read(path)):
                name, text = [g for g in match.groups() if g is not None][:2]
                found.setdefault(name, []).append((path, text))
    return found


def evaluate(text, path, known, depth=0):
    """The integer that a C expression stands for, or None."""
    text = re.sub(r'\\\n', ' ', text)
    text = re.sub(r'\((?:size_t|unsigned|long|u?int\w*_t)\)', '', text)
    text = re.sub(r'\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b', r'\1', text)

    def number(match):
        value = look_up(match.group(), path, known, depth + 1)
        return 'x' if value is None else str(value)

    text = re.sub(r'\b[A-Za-z_]\w*', number, text).strip()
    if depth > 8 or not re.fullmatch(r'[\dxa-fA-F+\-*/()<>~&| ]+', text):
        return None
    try:
        return int(eval(text.replace('/', '//'), {'__builtins__': {}}))
    except (SyntaxError, NameError, TypeError, ZeroDivisionError):
        return None


def look_up(name, path, known, depth=0):
    """The value of a name as the file path sees it."""
    folder = os.path.dirname(path)
    places = sorted(known.get(name, []), key=lambda place:
                    (place[0] != path, os.path.dirname(place[0]) != folder))
    return evaluate(places[0][1], places[0][0], known, depth) \
        if places and depth < 8 else None


def stated(text):
    """The integer at the start of a text of a table, or None."""
    found = re.match(r'(1/)?([\d,]*\d)(?: ?([A-Za-z]+)\b)?', text.strip())
    if found is None:
        return None
    return int(found.group(2).replace(',', '')) * \
        UNITS.get(found.group(3), 1)


def check_row(readme, names, value, known, breaches):
    folder = os.path.dirname(readme)
    values = [value] if len(names) == 1 else re.split(r', (?=\d)', value)
    if len(values) != len(names):
        breaches.append('%s: %d names, %d values: %s' %
                        (readme, len(names), len(values), value))
        return
    for (name, file), text in zip(names, values):
        places = [path for path, _ in known.get(name, [])
                  if (path == os.path.join(folder, file) if file
                      else os.path.dirname(path) == folder)]
        if not places:
            breaches.append('%s: there is no %s in %s' %
                            (readme, name, file or folder))
            continue
        for path in places:
            true = look_up(name, path, known)
            if true is None or stated(text) != true:
                breaches.append('%s: %s is %s in %s, not %s' %
                                (readme, name, true, path, text))


def main():
    breaches, known, nrows = [], definitions(), 0
    readmes = sorted(glob.glob('*/README.md') + glob.glob('*/*/README.md'))
    for readme in readmes:
        with open(readme, encoding='utf-8') as file:
            text = file.read()
        for table in TABLE.finditer(text):
            for row in table.group(1).splitlines():
                cells = [cell.strip() for cell in row.split('|')[1:-1]]
                names = NAME.findall(cells[0])
                if names:
                    nrows += 1
                    check_row(readme, names, cells[1], known, breaches)
    if nrows == 0:
        breaches.append('no table of constants was found')
    print('\n'.join(breaches), end='\n' if breaches else '', file=sys.stderr)
    return bool(breaches)


if __name__ == '__main__':
    sys.exit(main())
