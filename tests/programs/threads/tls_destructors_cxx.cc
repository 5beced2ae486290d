// Destructors of thread_local objects allocate, at the end of each thread and
// of the program.
#include <string>
#include <thread>
#include <vector>

#include "tests/programs/check.h"

static unsigned ngone;

struct holder {
	std::vector<std::string> words;

	void
	fill(int n)
	{
		for (int i = 0; i < n; i++)
			words.push_back(std::string((size_t)i * 10, 'x'));
	}
	~holder()
	{
		check(words.size() > 0);
		fill(100);
		for (const std::string &word : words)
			check(word.find_first_not_of('x') ==
			    std::string::npos);
		churn(words.size(), 200, 50000);
		__atomic_fetch_add(&ngone, 1, __ATOMIC_RELAXED);
	}
};

static thread_local holder first, second;

int
main()
{
	first.fill(5);
	second.fill(5);
	for (int i = 0; i < 100; i++) {
		std::vector<std::thread> threads;

		for (int k = 0; k < 4; k++)
			threads.emplace_back([k] {
				first.fill(10 + k);
				second.fill(20 + k);
			});
		for (std::thread &thread : threads)
			thread.join();
	}
	check(ngone == 800);
	return 0;
}
