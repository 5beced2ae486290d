#!/bin/bash
# test timeout: 900
# nginx for some thousand requests.
export NGINX_ROUNDS=1500
exec bash "$TOP/tests/programs/real/real_nginx.sh"
