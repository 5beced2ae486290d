"""openmetrics.py - checks that standard input is OpenMetrics text

The rules that the metrics of umem could break: each family has one block of
lines, with its type before its samples; its name ends in its unit; a sample has
the suffix of its type, labels in the right form, a number, and no twin; the
last line is "# EOF".  Prints the number of families and of samples.

Source: the OpenMetrics specification, version 1.0.
"""
import re
import sys

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*"'
SAMPLE = re.compile(rf'({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? ([0-9]+)')
META = re.compile(rf'# (TYPE|UNIT|HELP) ({NAME}) (.+)')
SUFFIX = {'gauge': '', 'counter': '_total', 'info': '_info'}


def check(text):
    assert text.endswith('\n# EOF\n'), 'the end'
    families, series, family = {}, set(), None
    for line in text[:-len('# EOF\n')].splitlines():
        meta, sample = META.fullmatch(line), SAMPLE.fullmatch(line)
        assert meta or sample, line
        if meta:
            key, name, value = meta.groups()
            if name != family:
                assert name not in families, f'{name} has two blocks'
                family = name
                families[name] = {}
            assert key not in families[name], line
            assert 'samples' not in families[name], f'{line}: too late'
            families[name][key] = value
            if key == 'UNIT':
                assert name.endswith('_' + value), line
        else:
            name, labels, _ = sample.groups()
            assert family and 'TYPE' in families[family], line
            assert name == family + SUFFIX[families[family]['TYPE']], line
            assert (name, labels) not in series, f'{line}: a twin'
            names = re.findall(r'([a-zA-Z_][a-zA-Z0-9_]*)="', labels or '')
            assert len(names) == len(set(names)), line
            series.add((name, labels))
            families[family]['samples'] = True
    return len(families), len(series)


print(*check(sys.stdin.read()))
