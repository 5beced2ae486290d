// umem::retire(): readers of liburcu traverse a list from which objects are
// retired, made ones without a destructor and kept ones with a lock.
//
// test cflags: -idirafter umem -idirafter vmem -Wconversion -Wshadow
// test link: rcu
// test libs: -lurcu-memb -lurcu-common
#include <atomic>
#include <mutex>
#include <thread>

#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include <umem_rcu.h>
#include <umem.hpp>

#include "tests/programs/check.h"

namespace
{

struct value {
	long number, copy;
};

struct locked {
	std::mutex lock;
	std::atomic<long> number{5};
};

std::atomic<value *> current;
std::atomic<bool> done{false};

void
reader()
{
	rcu_register_thread();
	while (!done) {
		rcu_read_lock();
		value *seen = current.load(std::memory_order_acquire);
		check(seen->number == seen->copy);
		rcu_read_unlock();
	}
	rcu_unregister_thread();
}

} // namespace

int
main()
{
	umem::cache<value> values;
	umem::cache<locked, umem::kept> locks;

	rcu_register_thread();
	current = values.make(value{0, 0}).release();
	std::thread one(reader), two(reader);
	for (long i = 1; i < 50000; i++) {
		auto next = values.make(value{i, i});
		auto old = values.adopt(current.exchange(next.release()));

		check(umem::retire(std::move(old), &rcu_flavor));
		check(old == nullptr);
		auto object = locks.take();
		check(object->number == 5 && object->lock.try_lock());
		object->lock.unlock();
		check(umem::retire(std::move(object), &rcu_flavor));
	}
	check(umem::retire(umem::cache<value>::pointer(), &rcu_flavor));
	done = true;
	one.join();
	two.join();
	check(umem_rcu_barrier() == 0);
	values.adopt(current.load()).reset();
	rcu_unregister_thread();
	check(values.shrink());
	return 0;
}
