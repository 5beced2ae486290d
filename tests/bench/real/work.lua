-- work.lua - a fixed piece of work for Lua: tables, strings, closures

local n = tonumber(arg[1])
local seed = 42
local function random(m)
	seed = (seed * 1103515245 + 12345) % 2147483648
	return seed % m
end

local list = {}
for i = 1, n do
	list[i] = { id = i, name = "name " .. random(1000), next = list[i - 1] }
end
local byname = {}
for _, item in ipairs(list) do
	byname[item.name] = byname[item.name] or {}
	table.insert(byname[item.name], item)
end
local names = {}
for name in pairs(byname) do
	names[#names + 1] = name
end
table.sort(names)

local parts = {}
for i = 1, n do
	parts[#parts + 1] = string.format("%d:%s", i, names[1 + random(#names)])
	if #parts == 1000 then
		parts = { tostring(#table.concat(parts, ",")) }
	end
end

local function tree(depth)
	if depth == 0 then
		return {}
	end
	return { tree(depth - 1), tree(depth - 1) }
end
local function count(t)
	return t[1] and 1 + count(t[1]) + count(t[2]) or 1
end
local nodes = 0
for _ = 1, n // 10000 do
	nodes = nodes + count(tree(14))
end
print(#list, #names, names[1], #table.concat(parts), nodes)
