#!/bin/bash
# test timeout: 1800
# test alone: yes
# The soak of tests/soak for two minutes, in all its modes.
exec "$TOP/tests/soak/run.py" "$B" 120
