#!/bin/bash
# test timeout: 1800
# g++ on a file that takes it half a gigabyte: the same object each time.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
need g++ cksum
cat >big.cc <<'END'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct tower {
	std::map<std::string, std::variant<int, double, std::vector<tower<N - 1>>>> m;
	std::unordered_map<int, std::tuple<tower<N - 1>, std::string>> u;
	size_t size() const { return m.size() + u.size() + tower<N - 1>().size(); }
};
template <> struct tower<0> { size_t size() const { return 1; } };

int
main()
{
	std::regex words("(\\w+)\\s(\\d+)");
	std::smatch found;
	std::string text = "abc 123";
	std::function<size_t()> f = [] { return tower<60>().size(); };
	return std::regex_search(text, found, words) && f() == 1 ? 0 : 1;
}
END
run() {
	with "$1" g++ -std=c++17 -O2 -o big ../big.cc && cksum big &&
		with "$1" ./big
}
in_each run
