#!/bin/bash
# lua: tables, strings, closures, its collector.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
lua=
for name in lua lua5.4 lua5.3 luajit; do
	[ -n "$lua" ] || lua=$(command -v $name)
done
[ -n "$lua" ] || { echo "no lua"; exit 77; }
cat >script.lua <<'END'
local t, x = {}, 1
for i = 1, 200000 do
	x = (x * 16807) % 2147483647
	local k = x % 5000
	t[k] = (t[k] or "") .. string.char(97 + x % 26)
	if #t[k] > 60 then t[k] = t[k]:rep(2):sub(31, 60) end
	if i % 50000 == 0 then collectgarbage() end
end
local sum = 0
for k = 0, 4999 do
	for c in (t[k] or ""):gmatch(".") do sum = (sum * 31 + c:byte()) % 1000003 end
end
print(sum)
local function make(n) return function() n = n + 1; return n end end
local list = {}
for i = 1, 20000 do list[i] = make(i) end
for i = 1, 20000 do sum = sum + list[i]() end
print(sum)
local words = {}
for w in ("the quick brown fox "):rep(2000):gmatch("%w+") do words[#words + 1] = w end
table.sort(words)
print(#words, words[1], words[#words], #table.concat(words, ","))
print(pcall(error, {1}) == false, select("#", table.unpack(words, 1, 200)))
END
run() { with "$1" "$lua" ../script.lua; }
in_each run
