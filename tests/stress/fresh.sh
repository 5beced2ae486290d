#!/bin/bash
# test timeout: 7200
# README's commands and the packages work on freshly installed Debian releases.
exec "$TOP/tools/build/fresh.sh" "$TOP/build/fresh"
