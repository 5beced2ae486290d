#!/bin/bash
# test timeout: 600
# node: objects, workers, zlib, crypto, its collector.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need node
cat >script.js <<'END'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const zlib = require('zlib'), crypto = require('crypto');

function work(seed) {
	let x = seed, m = new Map();
	for (let i = 0; i < 400000; i++) {
		x = (x * 16807) % 2147483647;
		m.set(x % 20000, (m.get(x % 20000) || '') + String.fromCharCode(97 + x % 26));
	}
	const text = [...m.entries()].sort((a, b) => a[0] - b[0]).join();
	const packed = zlib.deflateSync(Buffer.from(text));
	const same = zlib.inflateSync(packed).toString() === text;
	return crypto.createHash('sha256').update(text).digest('hex') + ' ' + same;
}
if (isMainThread) {
	const out = [];
	let left = 6;
	for (let i = 0; i < 6; i++)
		new Worker(__filename, { workerData: i + 1 }).on('message', m => {
			out[i] = m;
			if (--left === 0) console.log(out.join('\n'));
		});
	console.log(work(99));
} else {
	parentPort.postMessage(work(workerData));
}
END
run() { with "$1" node ../script.js; }
in_each run
