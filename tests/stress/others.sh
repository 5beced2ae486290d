#!/bin/bash
# test timeout: 7200
# test alone: yes
# The unit tests and some programs on riscv64, ppc64el and s390x by QEMU's
# emulation of processes; all files are compiled for loong64.
exec "$TOP/tools/build/others.sh" "$TOP/build/others"
