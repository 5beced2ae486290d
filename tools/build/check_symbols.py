#!/usr/bin/env python3
"""check_symbols.py - no folder of the library uses a symbol of one above it

	tools/build/check_symbols.py [BUILD]

Runs in the tree's root, on the objects of BUILD/obj, by default build/obj.
Prints each use of a symbol of a folder above, and exits 1 if there was one.  A
folder calls a module above it by a table of functions, which the folder
declares and the module defines.
"""

import glob
import os
import subprocess
import sys

# The folders below each folder, which it may use.
BELOW = {'vmem': [], 'magazine': ['vmem']}
BELOW['umem/base'] = ['vmem', 'magazine']
BELOW['umem/slab'] = BELOW['umem/base'] + ['umem/base']
BELOW['umem/cache'] = BELOW['umem/slab'] + ['umem/slab']
BELOW['umem/upkeep'] = BELOW['umem/cache'] + ['umem/cache']
BELOW['umem/debug'] = BELOW['umem/cache'] + ['umem/cache']
BELOW['umem/profile'] = BELOW['umem/debug'] + ['umem/upkeep', 'umem/debug']
BELOW['umem/stats'] = BELOW['umem/profile'] + ['umem/profile']
BELOW['umem/malloc'] = BELOW['umem/stats'] + ['umem/stats']
BELOW['umem/rcu'] = BELOW['umem/malloc'] + ['umem/malloc']
BELOW['umem'] = BELOW['umem/rcu'] + ['umem/rcu']

# The tables, of which each is declared in the folder that calls by it.
TABLES = {'panic_hooks', 'ready_start', 'cache_debugger', 'cache_upkeep',
          'cache_deferral', 'cache_sampler', 'quantum_hooks', 'update_threads',
          'stack_landmarks', 'sample_engine'}

# The library defines these names of libc, and its files mean libc's.
OF_LIBC = {'pthread_create'}


def symbols(build, folder):
    """Yields (object, symbol, is it defined there) of a folder's objects."""
    objects = [f'{build}/obj/{path[:-2]}.o'
               for path in glob.glob(folder + '/*.c')]
    text = subprocess.run(['nm', '-A', '-P', '-g'] +
                          [path for path in objects if os.path.exists(path)],
                          check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        path, name, kind = line.replace(': ', ' ', 1).split()[:3]
        yield path, name, kind not in 'Uwv'


def check(build):
    of_folder = {folder: list(symbols(build, folder)) for folder in BELOW}
    defined = {name: folder for folder, uses in of_folder.items()
               for _, name, is_defined in uses if is_defined}
    breaches = [f'{path}: uses {name} of {defined[name]}'
                for folder, uses in of_folder.items()
                for path, name, is_defined in uses
                if not is_defined and name not in TABLES | OF_LIBC and
                defined.get(name, folder) not in [folder] + BELOW[folder]]
    print('\n'.join(breaches), end='\n' if breaches else '')
    return bool(breaches)


sys.exit(check(sys.argv[1] if len(sys.argv) > 1 else 'build'))
