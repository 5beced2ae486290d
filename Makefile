# umem's build.  All output goes to build*/, one folder a variant:
#
#	make [SAN=address|undefined|thread] [DEBUG=1] [CC=clang]
#	make CROSS=aarch64-linux-gnu-	libraries and tool; libumem_rcu if the
#					compiler finds liburcu's header
#	make V=1			prints each command in full
#
# Targets: all (the default), test, unit-test, matrix ROWS=, stress, models,
# fresh, soak TIME= MODES=, fuzz TIME= ENGINE=, coverage, mutants N= SEED=
# FILES=, test-vm ROWS=, misuse, bench, bench-scale, bench-rust, peers, demo,
# lint, dist, deb, portable, install DESTDIR= PREFIX= LIBDIR=, uninstall, clean.
#
# All CPUs are used unless -j says otherwise.  The goals that need more than
# the build does install Debian's packages first
# (tools/build/install_packages.sh).

# Each command that makes a file begins with $(call short,WORD,FILE), which
# prints one line in its place; it prints nothing of its own with V=1 or -s.
ifneq ($(filter 1,$(V))$(findstring s,$(firstword -$(MAKEFLAGS))),)
short	:=
else
short	= @printf '%-5s %s\n' '$1' '$2' &&
endif

# GNU make 4.3 hides the options of the make that called it.
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS) $(shell echo "$$MAKEFLAGS")),)
MAKEFLAGS += -j$(shell nproc)
endif

CROSS	?=
ifneq ($(CROSS),)
CC	:= $(CROSS)gcc
endif
LD	:= $(CROSS)ld
AR	:= $(CROSS)ar
OBJCOPY	:= $(CROSS)objcopy

CFLAGS	?= -O2 -g
PREFIX	?= /usr/local
LIBDIR	?= $(PREFIX)/lib
MANDIR	?= $(PREFIX)/share/man
BASHDIR	?= $(PREFIX)/share/bash-completion/completions
ZSHDIR	?= $(PREFIX)/share/zsh/site-functions
# gdb looks for libumem.so.1.0.0-gdb.py beside the library, and in
# /usr/share/gdb/auto-load/usr/lib for a library of /usr/lib.
GDBDIR	?= $(LIBDIR)

ARCH	:= $(firstword $(subst -, ,$(CROSS)))
B	:= build$(if $(ARCH),-$(ARCH))$(if $(findstring clang,$(CC)),-clang)$(if \
	   $(findstring musl,$(CC)),-musl)$(if $(SAN),-$(SAN))$(if \
	   $(DEBUG),-debug)
# Objects; apart, since $B/umem is the tool.
O	:= $B/obj
VERSION	:= $(shell sed -n 's/^.define UMEM_VERSION "\(.*\)"/\1/p' umem/umem.h)

override CFLAGS	  += -std=gnu11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
		     -Wmissing-prototypes -fvisibility=hidden -fPIC \
		     -Wno-unneeded-internal-declaration
override CPPFLAGS += -I. -D_GNU_SOURCE -MMD -MP $(if $(DEBUG),-DUMEM_DEBUG)
# dl: a part of glibc from 2.34 on.
override LDFLAGS  += -pthread -ldl
ifdef SAN
override CFLAGS	  += -fsanitize=$(SAN) -fno-sanitize-recover=all \
		     -fno-omit-frame-pointer
override LDFLAGS  += -fsanitize=$(SAN)
endif
# ThreadSanitizer does not see the fences of umem/rcu/grace.c; its other
# knowledge of these variables comes from their atomic accesses.
ifeq ($(SAN),thread)
override CFLAGS	  += -Wno-tsan
override CPPFLAGS += -DRSEQ_WATCHER='"tests/rseq_watcher.h"'
endif

# A libc other than the system's.  The headers of the kernel and of valgrind
# belong to no libc, but Debian's musl-gcc does not look where they are.
MUSL	:= $(findstring musl,$(notdir $(CC)))
# Check and liburcu for it, if tools/build/musl_libraries.sh has built them.
OUTSIDE	:= $(if $(MUSL),$(patsubst %/lib/libcheck.a,%,$(wildcard \
	   $B/outside/lib/libcheck.a)))
ifneq ($(MUSL),)
OTHER_HEADERS := $(OUTSIDE:%=-I%/include) -idirafter /usr/include \
	-idirafter /usr/include/$(shell gcc -print-multiarch)
override CPPFLAGS += $(OTHER_HEADERS)
override LDFLAGS  += $(OUTSIDE:%=-L%/lib)
endif
# The parts that need libraries of the system's libc are left out.
APART	:= $(CROSS)$(MUSL)
ifneq ($(MUSL),)
CXX	:= no-c++-for-musl
endif

comma	:= ,
# GNU make up to 4.2 removes the backslash of \# in $(shell), later ones do not.
hash	:= \#
# $(call quoted,TEXT) is TEXT as one word of the shell.
quoted	= '$(subst ','\'',$1)'

# initial-exec: the first touch of a dynamic TLS variable may call malloc.
# function-sections: umem/often.ld places functions.
# no-lto: it names them by their files, which LTO merges.
LIB_CFLAGS := -ftls-model=initial-exec -ffunction-sections -fno-lto
# nodelete: blocks of malloc must outlive a dlclose() of the library.
# defs: only weak names are undefined, so that no C++ library is needed.
# sort: places .bss.seldom behind the other data.
# eh-frame-hdr: stacks need it, and Debian's musl-gcc does not ask for it.
# nostartfiles: the files for constructors and destructors of C++ cost each
# process four look-ups of symbols, and a page fault for an empty _fini().
SO_FLAGS = -shared -Wl,--eh-frame-hdr -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now \
	   $(if $(SAN),,-Wl,-z,defs) $(if $(IS_GNU_LD),$(GNU_FLAGS))
# Every process of a preloaded tree loads the library: these flags give it fewer
# symbols to look up and fewer mappings.
SHIM_FLAGS = -Wl,-Bsymbolic-functions -Wl,--dynamic-list=umem/preempted.list \
	     $(if $(IS_GNU_LD),-Wl$(comma)-z$(comma)noseparate-code)

# Only GNU ld reads the scripts.  The libraries of another linker are right, but
# more of their pages are resident; its name for the library is crtbeginS.o's.
# The compiler may be one of the packages that make installs: it is asked when
# a library is linked.
IS_GNU_LD = $(findstring GNU ld,$(wordlist 1,2,$(shell \
	    $(CC) $(LDFLAGS) -Wl$(comma)--version 2>/dev/null)))
GNU_FLAGS := -Wl,--sort-section=name -Wl,-T,umem/sections.ld \
	     -Wl,-T,umem/often.ld $(if $(SAN),,-nostartfiles)

# umem/rcu/rcu.c is a library of its own, the only part that knows liburcu.
RCU_O	:= $O/umem/rcu/rcu.o
LIB_C	:= $(filter-out umem/rcu/rcu.c umem/malloc/archive.c,$(wildcard vmem/*.c magazine/*.c \
	   umem/*.c umem/*/*.c))
LIB_O	:= $(LIB_C:%.c=$O/%.o)
# Unit tests and programs that link libumem leave libc's malloc alone.
SHIM_ONLY := $(addprefix umem/malloc/,malloc allocx operators thread dlopen) \
	   umem/stats/mallinfo umem/mallctl
INNER_O	:= $(filter-out $(SHIM_ONLY:%=$O/%.o),$(LIB_O))
# Of make coverage, as a part of each library and program.
ifneq ($(COVER),)
COVER_O	:= $O/tools/build/coverage.o
override CPPFLAGS += -DUMEM_COVERAGE
LIB_O	+= $(COVER_O)
INNER_O	+= $(COVER_O)
RCU_O	+= $(COVER_O)
endif
UNIT_C	:= $(wildcard tests/unit/*.c)
UNIT_O	:= $(UNIT_C:%.c=$O/%.o) $O/suites.o
LIBS	:= $B/libumem.so.1 $B/libumem.so $B/libumem.a
SHIM	:= $B/libumem_malloc.so.1 $B/libumem_malloc.so $B/libumem_malloc.a
# Another libc may lack liburcu's header; then libumem_rcu is left out.
URCU	:= $(if $(APART),$(shell echo '$(hash)include <urcu/flavor.h>' | \
	   $(CC) $(filter-out -M%,$(CPPFLAGS)) -E - >/dev/null 2>&1 && echo yes),yes)
RCU	:= $(if $(URCU),$B/libumem_rcu.so.1 $B/libumem_rcu.so $B/libumem_rcu.a)
# The command knows the registers of two architectures.
MACHINE	:= $(or $(ARCH),$(shell uname -m))
TOOLS	:= $(if $(filter-out x86_64 aarch64,$(MACHINE)),,$B/umem)
# The installed command looks in $(LIBDIR) if the library is not near itself.
# Each LIBDIR has a folder for it, named by a checksum, because a target cannot
# name each folder.  "make" builds it, so that "make install" of another user
# leaves no files in $B.
ifeq ($(LIBDIR),/usr/local/lib)
BIN_O	:= $O/bin
else
BIN_O	:= $O/bin-$(shell printf %s $(call quoted,$(LIBDIR)) | sha256sum | cut -c -16)
endif
INSTALLED_TOOLS := $(TOOLS:$B/%=$(BIN_O)/%)
# Names of code addresses come from elfutils and libiberty.
TOOL_C	:= $(filter-out $(addprefix tools/inspect/symbols/,$(if $(APART),\
	   symbols_dw.c demangle.c module_file.c,symbols_none.c)),\
	   $(wildcard tools/inspect/*.c tools/inspect/*/*.c))
TOOL_O	:= $(TOOL_C:%.c=$O/%.o) $(COVER_O)

# tests/X/name.c and name.cc become $B/X/name.
outputs	= $(patsubst tests/%,$B/%,$(basename $(foreach d,$1,\
		$(wildcard tests/$d/*.c tests/$d/*.cc))))

# The sets of packages that the goals need.
SETS	:= $(filter demo fresh fuzz lint matrix models soak stress,\
		$(MAKECMDGOALS)) \
	   $(if $(filter test unit-test,$(MAKECMDGOALS)),test) \
	   $(if $(filter bench bench-scale peers,$(MAKECMDGOALS)),bench) \
	   $(if $(filter coverage mutants,$(MAKECMDGOALS)),coverage) \
	   $(if $(filter test-vm,$(MAKECMDGOALS)),vm)
NEEDS	:= $(if $(strip $(SETS)),packages)

.DELETE_ON_ERROR:
.PHONY: all test unit-test matrix stress soak models fuzz fuzzers coverage mutants fresh test-vm misuse bench \
	bench-scale bench-rust peers demo lint dist deb portable install uninstall clean FORCE packages requirements

# The address and the thread sanitizer have a malloc of their own, so these
# variants have no shim.
ifneq ($(filter address thread,$(SAN)),)
all: $(LIBS) $(RCU)
else
all: $(LIBS) $(RCU) $(SHIM) $(if $(SAN),,$(TOOLS) $(INSTALLED_TOOLS))
endif

packages:
	@tools/build/install_packages.sh $(SETS)

# Everything that is compiled waits for this.
HEADERS	:= stdlib.h valgrind/memcheck.h \
	   $(if $(APART),,elfutils/libdw.h libiberty/demangle.h \
	   urcu/flavor.h) \
	   $(if $(filter unit-test %/unit,$(MAKECMDGOALS)),check.h)
check_headers = CC='$(CC) $(filter-out -M%,$(CPPFLAGS)) $(CFLAGS)' \
	tools/build/check_requirements.sh
requirements: | $(NEEDS)
	@$(check_headers) $(HEADERS)

$O/%.o: %.c | requirements
	@mkdir -p $(@D)
	$(call short,CC,$<) $(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(LIB_O) $(RCU_O) $O/umem/malloc/archive.o: override CFLAGS += $(LIB_CFLAGS)
$(RCU_O): override CPPFLAGS += -Iumem
# operator new throws through here.
$O/umem/malloc/malloc.o $O/umem/malloc/operators.o: \
	override CFLAGS += -fexceptions -falign-functions=64
# The operators ask which functions their own names stand for in the process.
# By default clang takes them for its own, and inlines them.
$(patsubst %,$O/umem/malloc/%.o,allocx malloc operators): \
	override CFLAGS += -fsemantic-interposition

$B/libumem.so.1: $(INNER_O) umem/libumem.map umem/sections.ld \
		umem/often.ld
	$(call short,LD,$@) $(CC) $(SO_FLAGS) -Wl,-soname,$(@F) \
	    -Wl,--version-script=umem/libumem.map \
	    -o $@ $(INNER_O) $(LDFLAGS)

$B/libumem_malloc.so.1: $(LIB_O) umem/libumem.map umem/preempted.list \
		umem/sections.ld umem/often.ld
	$(call short,LD,$@) $(CC) $(SO_FLAGS) $(SHIM_FLAGS) -Wl,-soname,$(@F) \
	    -Wl,--version-script=umem/libumem.map \
	    -o $@ $(LIB_O) $(LDFLAGS)

# Its undefined names are those of libumem.so.1 or libumem_malloc.so.1, of which
# the program chooses one.
$B/libumem_rcu.so.1: $(RCU_O) umem/libumem_rcu.map umem/sections.ld \
		umem/often.ld
	$(call short,LD,$@) \
	    $(CC) $(filter-out -Wl$(comma)-z$(comma)defs,$(SO_FLAGS)) \
	    -Wl,-soname,$(@F) -Wl,--version-script=umem/libumem_rcu.map \
	    -o $@ $(RCU_O) $(LDFLAGS)
$B/libumem_rcu.a: $(RCU_O)
	$(call short,AR,$@) rm -f $@ && $(AR) rcs $@ $(RCU_O)

$B/%.so: $B/%.so.1
	$(call short,LN,$@) ln -sf $(<F) $@

# One object with the internal names made local, so that a static link cannot
# clash with a program's own slab_create() or list_add().  libumem.a is without
# malloc: linking it must not change the malloc of the program.  The base of the
# probes stays global, because the linker keeps one for all objects with probes.
$B/libumem.a: $(INNER_O)
$B/libumem_malloc.a: $(filter-out $O/umem/malloc/dlopen.o,$(LIB_O)) \
		$O/umem/malloc/archive.o
$B/libumem.a $B/libumem_malloc.a:
	$(call short,AR,$@) $(LD) -r -o $O/$(@F:.a=.o) $^ && \
	    $(OBJCOPY) --localize-hidden $O/$(@F:.a=.o) && \
	    $(OBJCOPY) --globalize-symbol=_.stapsdt.base $O/$(@F:.a=.o) && \
	    rm -f $@ && $(AR) rcs $@ $O/$(@F:.a=.o)

INSTALLED_O := $(TOOL_O:$O/tools/inspect/commands/run.o=$(BIN_O)/commands/run.o)
TOOL_LIBS = $(if $(APART),,-ldw -lelf -liberty) -lm
# The command's assertions, like the library's, are for DEBUG=1 only.
$(TOOL_O) $(INSTALLED_O): override CPPFLAGS += $(if $(DEBUG),,-DNDEBUG)
# Texts in the command, as literals of C: $O/X.h has the text X.
TEXTS	:= $(wildcard tools/inspect/*/*.txt \
	   tools/inspect/report/flame.*s)
$(TEXTS:%=$O/%.h): $O/%.h: %
	@mkdir -p $(@D)
	$(call short,TEXT,$<) sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< >$@
$(TOOL_O) $(INSTALLED_O): override CPPFLAGS += -I$O
$(TOOL_O) $(INSTALLED_O): | $(TEXTS:%=$O/%.h)
# clang 11 does not know "GCC unroll".
$(TOOL_O) $(INSTALLED_O): override CFLAGS += -Wno-unknown-pragmas
$(TOOLS): $(TOOL_O)
	$(call short,LD,$@) $(CC) -o $@ $^ $(LDFLAGS) $(TOOL_LIBS)
$(INSTALLED_TOOLS): $(INSTALLED_O)
	$(call short,LD,$@) $(CC) -o $@ $^ $(LDFLAGS) $(TOOL_LIBS)
$(BIN_O)/commands/run.o: tools/inspect/commands/run.c | requirements
	@mkdir -p $(@D)
	$(call short,CC,$<) \
	    $(CC) $(CPPFLAGS) $(CFLAGS) $(call quoted,-DUMEM_LIBDIR="$(subst ",\",$(subst \,\\,$(LIBDIR)))") -c -o $@ $<

# tests/unit/test_slab.c gives slab_suite(); the list follows the files.
ROOMS	:= $(patsubst tests/unit/test_%.c,%,$(filter tests/unit/test_%,$(UNIT_C)))
$O/suites.c: FORCE | requirements
	@mkdir -p $(@D); { echo '#include "tests/unit/suites.h"'; \
	for room in $(ROOMS); do echo "Suite *$${room}_suite(void);"; done; \
	echo 'const struct room rooms[] = {'; \
	for room in $(ROOMS); do \
		echo "	{ \"$$room\", $${room}_suite },"; done; \
	echo '	{ 0, 0 } };'; } >$@.new; \
	if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$O/suites.o: $O/suites.c
	$(call short,CC,$<) $(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# The prototypes of the suites are in suites.c.
# no-lto: some functions are written in assembler.
$(UNIT_O): override CFLAGS += -Wno-missing-prototypes -Wno-unused-result -fno-lto
# Calls of these go by tests/unit/hooks.c.
UNIT_WRAPS := heap_free meta_free lock_release os_purge os_futex_wait \
	os_page_size os_resident os_now_ns os_kernel_version os_charges_all \
	magazine_install pthread_create _mark_point
$B/unit: $(UNIT_O) $(INNER_O)
	$(call short,LD,$@) $(CC) -o $@ $^ $(LDFLAGS) $(UNIT_WRAPS:%=-Wl,--wrap=%) \
	    $(or $(OUTSIDE:%=-lcheck -lm),$(shell pkg-config --libs check))

# Programs of the tests have faults on purpose, so some warnings are off.  Lines
# "test link: umem", "test link: static" and "test cflags: ..." in the head
# comment say how a program is built.
PROGRAM_FLAGS = -O1 -g -fno-builtin -I. -D_GNU_SOURCE -MMD -MP -Wall -Wextra \
	-Wno-unknown-warning-option -Wno-use-after-free -Wno-unused-result \
	-Wno-free-nonheap-object -Wno-deprecated-declarations \
	$(SAN_FLAGS) $(if $(MUSL),$(OTHER_HEADERS) -include tests/musl.h)
header_of = $(shell sed -n 's,^\( \*\|//\) test $2: ,,p' $1)
header	= $(call header_of,$<,$1)
link_umem	:= -L$B -lumem
link_static	:= $B/libumem.a
link_archive	:= $B/libumem_malloc.a $(if $(filter undefined,$(SAN)),-fsanitize=undefined -lubsan)
# The functions of tests/musl.h, in programs that call them.
link_musl	= -Wl,--as-needed,-rpath,$(abspath $B) -L$B -lumem_malloc
# Of the address and the thread sanitizer, the program is a part.
SAN_FLAGS	:= $(if $(filter address thread,$(SAN)),-fsanitize=$(SAN))
# With "link: rcu", libs names the flavours: "libs: -lurcu-memb".
link_rcu	:= -Iumem -L$B -lumem_rcu -lumem
link_rcu_table	:= $(link_rcu) -lurcu-memb -lurcu-cds
link_urcu	:= -Iumem -lurcu-memb -lurcu-cds
program	= $1 $2 $(PROGRAM_FLAGS) $(call header,cflags) -o $@ $< -pthread \
	$(link_$(or $(call header,link),$(link),$(MUSL))) \
	$(OUTSIDE:%=-L%/lib) $(call header,libs) \
	-Wl,--as-needed -ldl -lm -lrt

# FOLDERS names the folders of tests/programs that are built and run.
FOLDERS	?= *
PROGRAMS := $(call outputs,$(FOLDERS:%=programs/%))
ifneq ($(MUSL),)
PROGRAMS := $(filter-out $(basename $(patsubst tests/%,$B/%,$(shell \
	    grep -lsE '^ \* test (not with: musl$(if $(OUTSIDE),,|link: rcu))' \
	    tests/programs/*/*.c))),$(PROGRAMS))
endif
STRESSES := $(call outputs,stress)
SOAKS	:= $(call outputs,soak) $B/soak/plugin.so
BENCHES	:= $(call outputs,bench)
MISUSES	:= $(call outputs,misuse)
DEMOS	:= $(call outputs,demo)
FUZZES	:= $(call outputs,fuzz)
# The default of gcc, but not of clang.
$(patsubst tests/%.cc,$B/%,$(wildcard tests/misuse/*.cc tests/programs/*/*.cc)): \
	PROGRAM_FLAGS += -fsized-deallocation
$(BENCHES): link = static
$(BENCHES): $B/libumem.a
$B/bench/rcu: link = urcu
# Counts for emulated CPUs.  It has functions in front of the library's, and of
# SAN=thread those that the compiler calls at each access to memory.
SIMULATE_WRAPS := rseq_start os_cpus_allowed os_cpu_slots os_now_ns lock_take \
	lock_try lock_release depot_trade depot_put slab_take
$B/bench/simulate: tests/bench/simulate.c $O/umem/malloc/archive.o \
		$(filter-out $O/umem/malloc/dlopen.o,$(LIB_O))
	@mkdir -p $(@D)
	$(call short,CC,$<) $(CC) -std=gnu11 $(PROGRAM_FLAGS) \
	    $(if $(SAN),-DSIMULATE_LINES) -ftls-model=initial-exec -o $@ $< $(filter %.o,$^) -pthread -ldl \
	    $(SIMULATE_WRAPS:%=-Wl,--wrap=%)
$B/demo/objects: link = umem
$B/demo/hashtable $B/demo/typestable: link = rcu_table
# A compiler removes a strdup() that a demo leaks, if it knows the function.
$(DEMOS): NO_BUILTIN := -fno-builtin
$(BENCHES) $(DEMOS): PROGRAM_FLAGS = $(NO_BUILTIN) -O2 -g -I. -D_GNU_SOURCE -MMD -MP -Wall -Wextra
# Preloaded by tests/run_tests.sh.
$B/account.so: tests/account.c | requirements
	$(call short,CC,$<) $(CC) -O2 -g -I. -D_GNU_SOURCE -MMD -MP -Wall -Wextra \
		-fPIC -shared -o $@ $<
$(PROGRAMS) $(STRESSES): | $B/account.so
# Opened and closed by tests/soak/soak.c.
$B/soak/plugin.so: tests/soak/parts/plugin.c | requirements
	@mkdir -p $(@D)
	$(call short,CC,$<) $(CC) -O1 -g -Wall -Wextra -fPIC -shared -o $@ $<
$(if $(MUSL),$(PROGRAMS)): | $(SHIM)
$B/%: tests/%.c | $(LIBS) $(RCU) requirements
	@mkdir -p $(@D)
	$(call short,CC,$<) $(call program,$(CC),-std=gnu11)
$B/%: tests/%.cc | $(LIBS) $(RCU) requirements
	@mkdir -p $(@D)
	$(call short,CXX,$<) ! command -v $(firstword $(CXX)) >/dev/null || \
	    $(call program,$(CXX),-std=c++17)

$(patsubst tests/%.c,$B/%,$(shell \
	grep -ls '^ \* test link: static' tests/*/*.c tests/*/*/*.c)): $B/libumem.a
$(patsubst tests/%,$B/%,$(basename $(shell grep -lsE \
	'^( \*|//) test link: archive' tests/*/*/*.c tests/*/*/*.cc))): \
	$B/libumem_malloc.a

# -idirafter makes them headers of the system, which -MMD leaves out.
$(filter $B/programs/cxx/%,$(PROGRAMS)): umem/umem.hpp umem/umem.h

# The command as one object.  Its variables are in sections of their own, so
# that a fuzzer can give them their first values again.
$B/fuzz/command.o: $(TOOL_O) tests/fuzz/command.syms
	@mkdir -p $(@D)
	$(call short,LD,$@) $(LD) -r -o $@ $(TOOL_O) && \
	    $(OBJCOPY) --redefine-syms=tests/fuzz/command.syms \
	    --rename-section .data=fuzz_data --rename-section .bss=fuzz_bss $@
# The library, with other names for malloc() and its relatives.  Without the
# functions of the sanitizer, it takes the paths that it has for programs.
$B/fuzz/library.o: $(INNER_O) $O/umem/malloc/malloc.o $(RCU_O) \
		tests/fuzz/library.syms
	@mkdir -p $(@D)
	$(call short,LD,$@) $(LD) -r -o $@ $(filter %.o,$^) && \
	    $(OBJCOPY) --redefine-syms=tests/fuzz/library.syms \
	    --weaken-symbol=os_open_append $@
# Cores of a program that runs on the library of the build without sanitizers.
$B/fuzz/small: tests/fuzz/parts/small.c
	@mkdir -p $(@D)
	$(call short,CC,$<) $(CC:afl-%-fast=%) -O1 -g -fno-builtin -I. -o $@ $< \
	    -Lbuild -lumem_malloc
$B/fuzz/cores: $B/fuzz/small tests/fuzz/make_core.py build/libumem_malloc.so.1
	@mkdir -p $@
	$(call short,CORE,$@) tests/fuzz/make_core.py \
	    build/libumem_malloc.so.1 $B/fuzz/small $@ && touch $@
FUZZ_O	:= $(FUZZES:$B/%=$O/tests/%.o)
$(FUZZ_O): override CFLAGS += -Wno-unused-function
$(FUZZ_O): override CPPFLAGS += -Iumem
$(FUZZES): $B/fuzz/%: $O/tests/fuzz/%.o $B/fuzz/command.o $B/fuzz/library.o | \
		$B/fuzz/cores
	$(call short,LD,$@) $(CC) $(CFLAGS) -fsanitize=fuzzer -o $@ $< \
	    $B/fuzz/$(call header_of,tests/fuzz/$*.c,link).o $(LDFLAGS) \
	    $(TOOL_LIBS) -lurcu-memb
fuzzers: $(FUZZES)

# Tests that run make themselves find the variant in the environment.  The
# scripts are written for gcc, and those of make coverage use it, too.
run_tests = env -u MAKEFLAGS -u MFLAGS -u COVER $(if $(COVER),CC=cc CXX=c++,CC='$(CC)' CXX='$(CXX)') \
	SAN='$(SAN)' DEBUG='$(DEBUG)' LIBC='$(MUSL)' tests/run_tests.sh

# The programs that link libumem, and do not run on its malloc().
LINKED	:= $(basename $(patsubst tests/%,$B/%,$(shell \
	   grep -lsE '^( \*|//) test link: (umem|rcu|static)' \
	   $(foreach d,$(FOLDERS),tests/programs/$d/*.c tests/programs/$d/*.cc))))
# Without Check, which only the unit tests need, the programs are run.  TESTS
# names kinds of tests, as in tests/run_tests.sh.
TESTS	?= unit programs scripts
# The programs that scripts run; "make test" fails if one is missing here.
OF_SCRIPTS := $(addprefix $B/programs/,rcu/rcu_torture rcu/rcu_flavours \
	process/clone threads/refused_later)
test: all $(if $(filter programs,$(TESTS)),$(if $(SAN_FLAGS),$(LINKED),$(PROGRAMS)), \
		$(if $(filter scripts,$(TESTS)),$(OF_SCRIPTS))) \
		$(if $(SAN),,$(if $(filter scripts,$(TESTS)),$(MISUSES)))
	$(if $(filter unit,$(TESTS)),@! $(check_headers) \
	    $(if $(MUSL),$(OUTSIDE)/include/)check.h || $(MAKE) $B/unit)
	@TESTS='$(TESTS)' $(run_tests) $B $$([ ! -e $B/unit ] || echo unit) \
	    $(if $(filter-out *,$(FOLDERS)),$(FOLDERS:%=programs/%),programs)

unit-test: all $B/unit
	@$(run_tests) $B unit

# The tests in all variants, or in those of ROWS.
matrix: | $(NEEDS)
	@env -u MAKEFLAGS -u MFLAGS tools/build/matrix.sh $(ROWS)

models: $(NEEDS)
	@tests/models/run.py

stress: all $(STRESSES) $(SOAKS)
	@$(run_tests) $B stress

# TIME is in seconds, for all MODES together; see tests/soak/README.md.
MODES	?=
soak: all $(SOAKS)
	@tests/soak/run.py $B '$(TIME)' $(MODES)

fresh: | $(NEEDS)
	@tools/build/fresh.sh build/fresh

# ROWS names rows of the table in the script; all by default.
test-vm: | $(NEEDS)
	@tools/build/vm.sh build/vm $(ROWS)

misuse: all $(MISUSES)
	@tests/misuse/run.sh $B

# The fuzzers and their objects are built by clang, with the assertions and two
# sanitizers, in a folder of their own.  Without pointer-overflow, which reports
# NULL + 0.  TIME is in seconds for each fuzzer; 0: only the inputs of the tree.
# ENGINE=afl makes them fuzzers of AFL++.
TIME	?= 60
ENGINE	?= fuzz
FUZZ_CC	?= $(if $(filter afl,$(ENGINE)),afl-clang-fast,clang)
FUZZ_COVER := $(if $(filter fuzz,$(ENGINE)),-fsanitize-coverage=inline-8bit-counters$(comma)pc-table)
FUZZ_SAN := address,alignment,bool,bounds,enum,float-cast-overflow,$(strip \
	)integer-divide-by-zero,nonnull-attribute,null,object-size,$(strip \
	)returns-nonnull-attribute,shift,signed-integer-overflow,unreachable,vla-bound
fuzz: all | $(NEEDS)
	@env -u MAKEFLAGS -u MFLAGS AFL_QUIET=1 $(MAKE) --no-print-directory \
	    B='build-$(ENGINE)' CC='$(FUZZ_CC)' DEBUG=1 SAN='$(FUZZ_SAN)' \
	    CFLAGS='-O2 -g $(FUZZ_COVER)' fuzzers
	@tests/fuzz/run.sh 'build-$(ENGINE)' '$(TIME)'

# Lines and branches that the tests execute, or those of TESTS and FOLDERS with
# PART=1.  GNU ld's scripts have no place for the sections of the counters.
COVER_FLAGS := -fprofile-instr-generate -fcoverage-mapping \
	-mllvm -runtime-counter-relocation
$(COVER_O): tools/build/coverage.c | requirements
	@mkdir -p $(@D) $B/profiles/other
	$(call short,CC,$<) $(CC) -O1 -fPIC -D_GNU_SOURCE \
	    -DCOVERAGE_DIR='"$(abspath $B)/profiles/other"' -c -o $@.o $< && \
	    $(LD) -r -o $@ $@.o $$($(CC) --print-runtime-dir)/libclang_rt.profile*-$(MACHINE).a
coverage: | $(NEEDS)
	@rm -rf build-coverage/profiles
	@env -u MAKEFLAGS -u MFLAGS COVERAGE_DIR='$(abspath build-coverage)/profiles' \
	    $(MAKE) --no-print-directory B=build-coverage CC=clang CXX=clang++ COVER=1 \
	    GNU_FLAGS= CFLAGS='-O2 -gdwarf-4 $(if $(PART),-Werror) $(COVER_FLAGS)' test || \
	    echo 'make coverage: a failed test counts, too' >&2
	@tools/build/coverage.py $(if $(PART),--part) build-coverage

# N mutants of FILES, chosen by SEED; make coverage comes first.
N	?= 20
SEED	?= 1
mutants: all $B/unit $(PROGRAMS) $(MISUSES) | $(NEEDS)
	@[ -e build-coverage/coverage/map.json ] || $(MAKE) coverage
	@[ -n '$(DEBUG)' ] || $(MAKE) DEBUG=1 all build-debug/unit $(PROGRAMS:$B/%=build-debug/%)
	@env -u MAKEFLAGS -u MFLAGS nice tests/mutants/mutants.py $B \
	    '$(if $(DEBUG),,build-debug)' $(N) $(SEED) $(FILES)

bench: all $(BENCHES)
	@tests/bench/run.sh $B
	@tests/bench/sweep.py $B

bench-scale: all $(BENCHES)
	@tests/bench/run.sh $B $(if $(BUNDLE),--bundle '$(BUNDLE)',--scaling)

bench-rust:
	@python3 tests/bench/rust.py build/bench-rust

peers: | $(NEEDS)
	@tools/build/peers.sh build/peers

demo: all $(DEMOS)
	@CC='$(CC)' tools/build/demo.sh $B

lint: all | $(NEEDS)
	@tools/build/lint.sh build

# The committed tree and its checksum.  Two archives of one commit are equal:
# the files have the time of the commit, and gzip stores neither time nor name.
DIST	:= umem-$(VERSION).tar.gz
dist:
	@[ -e .git ] && git rev-parse -q --verify HEAD >/dev/null 2>&1 || { \
	    echo 'make dist: needs git, and a clone of the repository' >&2; exit 1; }
	@git diff --quiet HEAD || \
	    echo 'make dist: changes that are not committed are left out' >&2
	@mkdir -p $B
	$(call short,TAR,$B/$(DIST)) git -c tar.umask=0022 archive \
	    --prefix=umem-$(VERSION)/ HEAD >$B/umem.tar && \
	    gzip -n -9 <$B/umem.tar >$B/$(DIST) && rm $B/umem.tar && \
	    cd $B && sha256sum $(DIST) >$(DIST).sha256

deb:
	@tools/packaging/make_deb.sh $B/deb

# One archive for every distribution; CROSS=aarch64-linux-gnu- works, too.
portable:
	@env -u MAKEFLAGS -u MFLAGS tools/packaging/portable.sh $B/portable $(CROSS)

# Names of functions a page documents beside its own, as "section name page".
MAN	:= $(wildcard man/*.[1-9])
# For systemd and Grafana, which do not look for them: umem_service(7).
METRICS	:= $(wildcard tools/metrics/*) tools/inspect/symbols/frames.txt
man_links = awk '/^\.Sh/ { on = $$2 == "NAME" } \
	on && $$1 == ".Nm" { file = FILENAME; sub(".*/", "", file); \
	n = split(file, part, "."); \
	if ($$2 "." part[n] != file) print part[n], $$2, file }' $(MAN)
AT	= $(call quoted,$(DESTDIR)$(LIBDIR))
TO	= $(call quoted,$(DESTDIR)$(PREFIX))
TO_MAN	= $(call quoted,$(DESTDIR)$(MANDIR))
TO_GDB	= $(call quoted,$(DESTDIR)$(GDBDIR))
TO_BASH	= $(call quoted,$(DESTDIR)$(BASHDIR))
TO_ZSH	= $(call quoted,$(DESTDIR)$(ZSHDIR))
# For a message that shows the word to the user.
SHOWN	= $(call quoted,$(call quoted,$(LIBDIR)))
PC_DIRS	= $(call quoted,prefix=$(PREFIX)) \
	  $(call quoted,libdir=$(subst $(PREFIX)/,$${prefix}/,$(LIBDIR))) \
	  'includedir=$${prefix}/include' ''
# The libraries' files have the version of their interface; the names that
# programs ask for are links.
FILE_VERSION := 1.0.0
INSTALLED := libumem libumem_malloc $(if $(RCU),libumem_rcu)

# CMake finds the headers from the folder of the libraries, so that an installed
# tree may move.  busybox has no realpath --relative-to: there a way up of as
# many folders as LIBDIR is below PREFIX, or else below the root.
install_cmake = at=$(call quoted,$(LIBDIR)) to=$(call quoted,$(PREFIX)); \
	up=$$(realpath -m --relative-to="$$at" "$$to" 2>/dev/null) || { \
		case $$at in "$$to"/*) at=$${at$(hash)"$$to"} to= ;; esac; \
		up=$$(echo "$$at" | sed 's|//*[^/][^/]*|/..|g')$$to; }; \
	up=$$(printf '%s\n' "$$up" | sed 's/[\\&|]/\\&/g'); \
	for file in umem-config umem-config-version; do \
	sed -e 's|@VERSION@|$(VERSION)|' -e "s|@UP@|$$up|" \
	    tools/packaging/cmake/$$file.cmake.in \
	    >$(AT)/cmake/umem/$$file.cmake || exit; done

# Of a umask that hides files from other users, install(1) takes no notice, but
# redirections do, and busybox's install for the folders.
install: all $(INSTALLED_TOOLS)
	umask 022 && install -d $(AT)/pkgconfig $(AT)/cmake/umem $(TO)/include/sys \
	    $(TO)/bin
	@for name in $(INSTALLED); do \
		install -m 755 $B/$$name.so.1 $(AT)/$$name.so.$(FILE_VERSION) && \
		ln -sf $$name.so.$(FILE_VERSION) $(AT)/$$name.so.1 && \
		ln -sf $$name.so.1 $(AT)/$$name.so || exit; \
	done
	install -m 644 $B/libumem.a $B/libumem_malloc.a $(AT)
ifneq ($(RCU),)
	install -m 644 $B/libumem_rcu.a $(AT)
	install -m 644 umem/umem_rcu.h $(TO)/include
	@umask 022 && printf '%s\n' $(PC_DIRS) 'Name: umem-rcu' \
	    'Description: frees that wait for a grace period of liburcu' \
	    'Version: $(VERSION)' 'Requires: umem' \
	    'Libs: -L"$${libdir}" -lumem_rcu' 'Cflags: -I"$${includedir}"' \
	    >$(AT)/pkgconfig/umem-rcu.pc
endif
	umask 022 && install -d $(TO_GDB)
	install -m 644 tools/gdb/umem-gdb.py \
	    $(TO_GDB)/libumem.so.$(FILE_VERSION)-gdb.py
	ln -sf libumem.so.$(FILE_VERSION)-gdb.py \
	    $(TO_GDB)/libumem_malloc.so.$(FILE_VERSION)-gdb.py
	install -m 644 umem/umem.h umem/umem.hpp vmem/vmem.h \
	    $(TO)/include
	install -m 644 vmem/sys/vmem.h $(TO)/include/sys
	$(if $(TOOLS),install -m 755 $(INSTALLED_TOOLS) $(TO)/bin)
	@umask 022 && $(install_cmake)
	umask 022 && install -d $(TO_BASH) $(TO_ZSH)
	install -m 644 tools/completion/umem.bash $(TO_BASH)/umem
	install -m 644 tools/completion/_umem $(TO_ZSH)
	umask 022 && install -d $(TO)/share/umem
	install -m 644 $(METRICS) $(TO)/share/umem
	@umask 022 && printf '%s\n' $(PC_DIRS) 'Name: umem' \
	    'Description: object caches, arenas and malloc' \
	    'Version: $(VERSION)' 'Libs: -L"$${libdir}" -lumem' \
	    'Libs.private: -pthread -ldl' 'Cflags: -I"$${includedir}"' \
	    >$(AT)/pkgconfig/umem.pc
	@umask 022 && \
	    sed -e 's/^Name: .*/Name: umem-malloc/' -e 's/-lumem$$/-lumem_malloc/' \
	    -e 's/^Description: .*/Description: umem as the malloc of a program/' \
	    $(AT)/pkgconfig/umem.pc >$(AT)/pkgconfig/umem-malloc.pc
	@umask 022 && for page in $(MAN); do \
		dir=$(TO_MAN)/man$${page##*.}; \
		install -d "$$dir" && install -m 644 "$$page" "$$dir" || exit; \
	done
	@umask 022 && $(man_links) | while read -r section name page; do \
		echo ".so man$$section/$$page" \
		    >$(TO_MAN)/man$$section/$$name.$$section; \
	done
ifeq ($(DESTDIR),)
	@PATH=$$PATH:/sbin:/usr/sbin ldconfig >/dev/null 2>&1; \
	! env LD_PRELOAD=libumem.so.1 true 2>&1 | grep -q libumem || printf \
	    '%s\n' 'make install: programs do not find libumem.so.1 yet.' \
	    'This command, run by root, makes the library known to all programs:' \
	    '    echo '$(SHOWN)' >/etc/ld.so.conf.d/umem.conf && ldconfig' \
	    'This one makes it known to programs of this shell:' \
	    '    export LD_LIBRARY_PATH='$(SHOWN)
endif

uninstall:
	rm -f $(foreach name,$(INSTALLED),$(addprefix $(AT)/$(name).so,\
	    '' .1 .$(FILE_VERSION))) \
	    $(addprefix $(TO_GDB)/,libumem.so.$(FILE_VERSION)-gdb.py \
	    libumem_malloc.so.$(FILE_VERSION)-gdb.py) \
	    $(addprefix $(AT)/,libumem.a libumem_malloc.a libumem_rcu.a \
	    pkgconfig/umem.pc pkgconfig/umem-malloc.pc pkgconfig/umem-rcu.pc \
	    cmake/umem/umem-config.cmake cmake/umem/umem-config-version.cmake) \
	    $(addprefix $(TO)/include/,umem.h umem.hpp umem_rcu.h \
	    vmem.h sys/vmem.h) \
	    $(addprefix $(TO)/,$(TOOLS:$B/%=bin/%)) \
	    $(addprefix $(TO)/share/umem/,$(notdir $(METRICS))) \
	    $(TO_BASH)/umem $(TO_ZSH)/_umem
	@rmdir $(AT)/cmake/umem $(TO)/share/umem 2>/dev/null || :
	@for page in $(MAN); do \
		rm -f $(TO_MAN)/"man$${page##*.}/$${page##*/}"; done
	@$(man_links) | while read -r section name page; do \
		rm -f $(TO_MAN)/"man$$section/$$name.$$section"; \
	done

clean:
	rm -rf build build-*

-include $(patsubst %.o,%.d,$(LIB_O) $O/umem/malloc/archive.o $(RCU_O) $(UNIT_O) $(TOOL_O) \
	$(INSTALLED_O)) \
	$(FUZZ_O:.o=.d) $(addsuffix .d,$(PROGRAMS) $(STRESSES) $(SOAKS) $(BENCHES) $(MISUSES) $(DEMOS))
