#!/bin/bash
# The commands print names of C++ and Rust functions as their source has them,
# without the types of the parameters, and cut a name that would be endless.
set -u
# shellcheck source=tests/programs/inspect/library.sh
. "$TOP/tests/programs/inspect/library.sh"

# Each argument of this template repeats the one before it twice.
endless=$(python3 - <<'END'
digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
print("_Z7endlessISt4pairIiiE" +
    "".join("S0_IS%c_S%c_E" % (c, c) for c in digits[1:]) + "Evv")
END
)
cat >main.cc <<END
#include <stdlib.h>
#include <unistd.h>
#include <utility>

static void *volatile lost;

namespace shop {
template <class T> struct store {
	store &operator+(const std::pair<T, long> &);
};
template <class T> __attribute__((noinline)) store<T> &
store<T>::operator+(const std::pair<T, long> &)
{
	lost = malloc(1000);
	return *this;
}
}

extern "C" {
/* The names that rustc gives to its functions, old and new. */
void rust_old(void) __asm__("_ZN7library6module3old17h0123456789abcdefE");
void rust_new(void) __asm__("_RNvNtCs1234_7library6module3new");
void endless(void) __asm__("$endless");

__attribute__((noinline)) void
rust_old(void)
{
	lost = malloc(2000);
}

__attribute__((noinline)) void
rust_new(void)
{
	lost = malloc(3000);
}

__attribute__((noinline)) void
endless(void)
{
	lost = malloc(5000);
}
}

int
main(void)
{
	char c;
	shop::store<unsigned> store;

	store + std::pair<unsigned, long>(1, 1);
	rust_old();
	rust_new();
	endless();
	lost = NULL;
	write(1, "ready\n", 6);
	return (int)read(0, &c, 1);
}
END
"$CXX" -O1 -w -fno-builtin -o main main.cc || exit 1

# finds REGEX - is it in $TMP/said?
finds() {
	grep -Eq "$1" said && return
	echo "no $1 in"
	cut -c 1-1000 said
	exit 1
}
export UMEM_DEBUG=audit
start ./main
"$umem" leaks -d "$pid" >said 2>&1
finds '^ +main`shop::store<unsigned int>::operator\+\+0x[0-9a-f]+$'
finds ' main`library::module::old\+0x[0-9a-f]+$'
finds ' main`library::module::new\+0x[0-9a-f]+$'
finds ' main`endless<std::pair<int, int>, std::pair<.{500,700}\.\.\.\+0x[0-9a-f]+$'
"$umem" leaks -c 'store<unsigned int>::operator+' "$pid" >said 2>&1
finds '^1000 leaked in 1 block$'
finish 0

command -v rustc >/dev/null || exit 0
cat >crab.rs <<'END'
mod shop {
    #[inline(never)]
    pub fn lose<T: From<u8>>(n: u8) {
        let v: Vec<T> = (0..n).map(T::from).collect();
        std::mem::forget(std::hint::black_box(v));
    }
}
#[inline(never)]
fn wipe() {
    std::hint::black_box([0u8; 4096]);
}
fn main() {
    shop::lose::<u64>(100);
    wipe();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
END
rustc -g -C opt-level=3 -o crab crab.rs 2>said || {
	cat said
	exit 1
}
start ./crab
"$umem" leaks -d "$pid" >said 2>&1
finds ' crab`crab::shop::lose(::<u64>)?\+0x[0-9a-f]+ \(crab.rs:4\)$'
# The call site is the program's function, not one of Rust's own libraries.
finds '  crab::shop::lose(::<u64>)? \(crab.rs:4\)'
finish 0
