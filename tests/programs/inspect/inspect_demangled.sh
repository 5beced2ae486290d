#!/bin/bash
# The commands print names of C++ and Rust functions as their source has them,
# without the types of the parameters, and cut a name that would be endless.
# test not with: coverage leaves addresses of lost blocks on the stack
set -u
# shellcheck source=tests/programs/inspect/parts/library.sh
. "$TOP/tests/programs/inspect/parts/library.sh"

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
#include <vector>

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

template <class T> __attribute__((noinline)) void
load(void)
{
	lost = malloc(1100);
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

__attribute__((noinline)) void
ngx_memalign(void)
{
	lost = malloc(6000);
}

__attribute__((noinline)) void
ngx_start(void)
{
	ngx_memalign();
	lost = NULL; /* no tail call */
}

/* Go's function that calls C, from where a stack leads no further. */
void go_calls_c(void) __asm__("runtime.asmcgocall.abi0");

__attribute__((noinline)) void
pool_alloc(void)
{
	lost = malloc(7000);
}

__attribute__((noinline)) void
go_calls_c(void)
{
	pool_alloc();
	lost = NULL;
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
	shop::load<std::vector<int>>();
	ngx_start();
	go_calls_c();
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
# An argument of a template makes no allocator of a function; a wrapper of
# memalign() is one; Go's call of C is no call site.
"$umem" leaks "$pid" >said 2>&1
finds '  main`shop::load<std::vector<int.*\+0x'
finds '  main`ngx_start\+0x[0-9a-f]+ via ngx_memalign'
finds '  main`pool_alloc\+0x[0-9a-f]+ < runtime.asmcgocall.abi0 < main$'
finish 0

command -v rustc >/dev/null || exit 0
# black_box() prevents tail calls, which would leave functions out of a stack.
cat >crab.rs <<'END'
mod shop {
    #[inline(never)]
    pub fn lose<T: From<u8>>(n: u8) {
        let v: Vec<T> = (0..n).map(T::from).collect();
        std::mem::forget(std::hint::black_box(v));
    }
    #[inline(never)]
    pub fn shout(n: usize) -> String {
        "0123456789".repeat(n)
    }
    #[inline(never)]
    pub fn label(n: usize) -> String {
        format!("item {:>900}", n)
    }
    #[inline(never)]
    pub fn index(n: u64) -> std::collections::HashMap<u64, [u64; 4]> {
        std::hint::black_box((0..n).map(|i| (i, [i; 4])).collect())
    }
    #[inline(never)]
    pub fn copy(v: &[u64]) -> Vec<u64> {
        v.to_vec()
    }
    #[inline(never)]
    pub fn choose(s: Option<&str>) -> String {
        let s = s.map_or_else(|| "none".into(), |t| t.to_uppercase());
        std::hint::black_box(s)
    }
    pub struct Item {
        pub bytes: Vec<u8>,
    }
    impl From<String> for Item {
        #[inline(never)]
        fn from(s: String) -> Item {
            Item { bytes: vec![1; s.len() + 5000] }
        }
    }
}
fn keep<T>(t: T) {
    std::mem::forget(std::hint::black_box(t));
}
#[inline(never)]
fn wipe() {
    std::hint::black_box([0u8; 4096]);
}
fn main() {
    shop::lose::<u64>(100);
    keep(shop::shout(100));
    keep(shop::label(7));
    keep(shop::index(500));
    keep(shop::copy(&[1, 2, 3]));
    keep(shop::choose(Some("abc")));
    keep(shop::Item::from(String::new()).bytes);
    wipe();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
END
# The call site is the program's function, not one of Rust's own libraries: by
# the paths of their files, and without debug information by their names.
for options in '-g -C opt-level=3' '-C opt-level=3' '-g -C opt-level=0' \
    '-C opt-level=0 -C symbol-mangling-version=v0'; do
	# shellcheck disable=SC2086 # options
	rustc $options -o crab crab.rs 2>said || {
		cat said
		exit 1
	}
	start ./crab
	"$umem" users -e "$pid" >said 2>&1
	for function in lose shout label index copy choose from; do
		finds "s  (crab\`)?<?crab::shop::(Item as [^ ]*)?${function}[: +]"
	done
	if grep -E 's  <?(crab`)?<?(core|alloc|std|hashbrown|str|\[)' said; then
		echo "$options: a call site in a library of Rust"
		exit 1
	fi
	"$umem" leaks -d "$pid" >said 2>&1
	if [ "$options" = '-g -C opt-level=3' ]; then
		finds ' crab`crab::shop::lose(::<u64>)?\+0x[0-9a-f]+ \(crab.rs:4\)$'
	fi
	finish 0
done
