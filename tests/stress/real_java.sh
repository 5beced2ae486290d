#!/bin/bash
# test timeout: 900
# java: the compiler and a program with threads.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need java javac
cat >Main.java <<'END'
import java.util.*;
import java.util.concurrent.*;
import java.util.zip.*;

public class Main {
	static long work(int seed) throws Exception {
		Random random = new Random(seed);
		Map<Integer, String> map = new TreeMap<>();
		for (int i = 0; i < 100000; i++)
			map.merge(random.nextInt(5000), "" + (char) ('a' + random.nextInt(26)), String::concat);
		byte[] text = map.toString().getBytes();
		CRC32 crc = new CRC32();
		for (int i = 0; i < 50; i++) {
			Deflater deflater = new Deflater();
			deflater.setInput(text);
			deflater.finish();
			byte[] out = new byte[text.length];
			crc.update(out, 0, deflater.deflate(out));
			deflater.end();
		}
		return crc.getValue();
	}

	public static void main(String[] args) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(8);
		List<Future<Long>> all = new ArrayList<>();
		for (int i = 0; i < 40; i++) {
			int seed = i;
			all.add(pool.submit(() -> work(seed)));
		}
		for (Future<Long> f : all)
			System.out.println(f.get());
		pool.shutdown();
	}
}
END
run() {
	with "$1" javac -d . ../Main.java && with "$1" java -Xmx256m -cp . Main
}
in_each run
