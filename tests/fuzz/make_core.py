#!/usr/bin/env python3
"""make_core.py LIBRARY PROGRAM FOLDER - writes small cores for tests/fuzz/core.c

Runs the program on the library several times, with different options, and
writes FOLDER/NAME.core for each: the memory of the library, of the program's
stack and data, and notes with one thread.  The addresses are not randomised.
umem's own reader of cores needs no more, and the file has about 1 MiB.
"""

import os
import struct
import subprocess
import sys

RUNS = {
    'plain': {'UMEM_OPTIONS': 'thread=no'},
    'debug': {'UMEM_OPTIONS': 'thread=no', 'UMEM_DEBUG': 'default',
              'UMEM_LOGGING': 'transaction=8k'},
    'sample': {'UMEM_OPTIONS': 'thread=no,sample=1k'},
}
PAGE = 4096


def note(kind, data):
    name = b'CORE\0'
    return (struct.pack('<III', len(name), len(data), kind) +
            name.ljust(8, b'\0') + data.ljust(-(-len(data) // 4) * 4, b'\0'))


def mappings(pid):
    """(start, end, rights, offset, path) of each mapping."""
    with open(f'/proc/{pid}/maps', encoding='utf-8') as file:
        for line in file:
            words = line.split(None, 5)
            start, end = (int(word, 16) for word in words[0].split('-'))
            yield (start, end, words[1], int(words[2], 16),
                   words[5].strip() if len(words) > 5 else '')


def notes(pid, maps):
    """Registers of the thread, the auxiliary vector and the files."""
    with open(f'/proc/{pid}/syscall', encoding='utf-8') as file:
        words = file.read().split()
    registers = [0] * 27
    registers[19], registers[16] = int(words[7], 16), int(words[8], 16)
    status = struct.pack('<iii4xQQiiii8Q', 0, 0, 0, 0, 0, pid, 1, pid, pid,
                         *[0] * 8)
    status += struct.pack('<27Q', *registers) + struct.pack('<i4x', 1)
    process = struct.pack('<4B4xQII4i16s80s', 0, 0, 0, 0, 0, 0, 0, pid, 1, pid,
                          pid, b'small', b'./small ')
    signal = struct.pack('<iii4xQ', 11, 0, 1, 0x1234).ljust(128, b'\0')
    files = [m for m in maps if m[4].startswith('/')]
    table = struct.pack('<QQ', len(files), PAGE)
    for start, end, _, offset, _ in files:
        table += struct.pack('<QQQ', start, end, offset // PAGE)
    table += b''.join(m[4].encode() + b'\0' for m in files)
    with open(f'/proc/{pid}/auxv', 'rb') as file:
        auxv = file.read()
    return (note(1, status) + note(3, process) + note(0x53494749, signal) +
            note(6, auxv) + note(0x46494c45, table))


def is_kept(start, rights, path):
    """Does the core have the memory, or only its address?"""
    if 'r' not in rights or path in ('[vvar]', '[vdso]', '[vsyscall]'):
        return False
    if 'libumem' in path or path == '[stack]' or path.endswith('/small'):
        return True
    # Without a file, it is the library's, or behind the data of a file.
    return not path.startswith('/') and 'w' in rights and start > 0


def write_core(pid, path):
    maps = list(mappings(pid))
    text = notes(pid, maps)
    at = 64 + 56 * (len(maps) + 1)
    heads = struct.pack('<IIQQQQQQ', 4, 0, at, 0, 0, len(text), 0, 4)
    body = text.ljust(-(-(at + len(text)) // PAGE) * PAGE - at, b'\0')
    with open(f'/proc/{pid}/mem', 'rb', 0) as memory:
        for start, end, rights, _, name in maps:
            data = b''
            if is_kept(start, rights, name):
                memory.seek(start)
                data = memory.read(end - start).rstrip(b'\0')
                data = data.ljust(-(-len(data) // PAGE) * PAGE, b'\0')
            flags = sum(bit for bit, one in ((4, 'r'), (2, 'w'), (1, 'x'))
                        if one in rights)
            heads += struct.pack('<IIQQQQQQ', 1, flags, at + len(body), start,
                                 0, len(data), end - start, PAGE)
            body += data
    header = (b'\x7fELF\2\1\1' + bytes(9) +
              struct.pack('<HHIQQQIHHHHHH', 4, 62, 1, 0, 64, 0, 0, 64, 56,
                          len(maps) + 1, 0, 0, 0))
    with open(path, 'wb') as file:
        file.write(header + heads + body)


def main():
    library, program, folder = sys.argv[1:]
    for name, options in RUNS.items():
        with subprocess.Popen(
                ['setarch', '-R', program], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={'LD_PRELOAD': os.path.abspath(library), **options}) as process:
            assert process.stdout.readline() == b'ready\n'
            while open(f'/proc/{process.pid}/syscall',
                       encoding='utf-8').read().split()[0] != '0':
                pass
            write_core(process.pid, os.path.join(folder, name + '.core'))
            process.stdin.close()


main()
