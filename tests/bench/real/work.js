// work.js - a fixed piece of work for node: buffers, strings, JSON, zlib
"use strict";
const zlib = require("zlib");
const crypto = require("crypto");

const n = Number(process.argv[2]);
let seed = 42;
const some = (m) => {
	seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
	return seed % m;
};

const records = [];
for (let i = 0; i < n; i++)
	records.push({ id: i, name: "name " + some(1000), tags: [some(9)] });
const text = JSON.stringify(records);
const again = JSON.parse(text);
const byName = new Map();
for (const r of again)
	byName.set(r.name, (byName.get(r.name) || 0) + 1);

const hash = crypto.createHash("sha256");
let kept = [];
for (let i = 0; i < n / 20; i++) {
	const buffer = Buffer.alloc(1 + some(20000), i & 255);
	hash.update(buffer);
	kept.push(buffer);
	if (kept.length > 500)
		kept = kept.slice(250);
}
let size = 0;
for (let i = 0; i < 20; i++)
	size += zlib.gunzipSync(zlib.gzipSync(text.slice(0, 400000))).length;
console.log(again.length, byName.size, hash.digest("hex"), size);
