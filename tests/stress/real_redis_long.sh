#!/bin/bash
# test timeout: 1200
# redis-server under a long redis-benchmark.
export REDIS_CALLS=300000
exec bash "$TOP/tests/programs/real/real_redis.sh"
