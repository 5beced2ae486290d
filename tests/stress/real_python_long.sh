#!/bin/bash
# test timeout: 3000
# A good part of python3's own tests.
set -u
export PYTHON_TESTS='test_json test_list test_dict test_set test_bytes test_re
	test_threading test_thread test_weakref test_array test_io test_gc
	test_pickle test_copy test_deque test_descr test_unicode test_str
	test_sort test_struct test_tuple test_fork1 test_subprocess
	test_concurrent_futures test_asyncio test_sqlite3 test_zlib test_bz2
	test_ctypes test_mmap test_memoryview test_decimal test_xml_etree
	test_collections test_itertools test_functools test_heapq test_hashlib
	test_signal test_socket test_ssl test_queue test_generators'
exec bash "$TOP/tests/programs/real/real_python.sh"
