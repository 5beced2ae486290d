/* test_cgroup.c - limits of the process's cgroup, in files of both versions */
#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "umem/base/cgroup.h"
#include "vmem/os.h"

#define FOLDER "/sys/fs/cgroup"

/* Writes a file below the folder. */
static void
set(const char *name, const char *text)
{
	char path[200], *slash = path;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", FOLDER, name);
	while ((slash = strchr(slash + 1, '/')) != NULL) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

/*
 * Replaces the kernel's files in a mount namespace of this process, by files in
 * memory that end with it.  Returns false if that is not permitted.
 */
static bool
replace(const char *groups)
{
	if (unshare(CLONE_NEWNS) != 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", FOLDER, "tmpfs", 0, NULL) != 0)
		return false;
	set("groups", groups);
	return mount(FOLDER "/groups", "/proc/self/cgroup", NULL, MS_BIND,
		   NULL) == 0;
}

START_TEST(the_least_quota_of_version_2_counts_rounded_up)
{
	if (!replace("0::/a/b\n"))
		return;
	ck_assert_uint_eq(cgroup_cpu_quota(64), 64);
	set("a/b/cpu.max", "max 100000\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 64);
	set("a/cpu.max", "250000 100000\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 3);
	ck_assert_uint_eq(cgroup_cpu_quota(2), 2);
	set("a/b/cpu.max", "100000 100000\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 1);
	set("a/b/cpu.max", "0 100000\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 1);
	/* A file without two numbers sets no quota. */
	set("a/b/cpu.max", "");
	set("a/cpu.max", "100000 0\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 64);
	set("a/cpu.max", "99999999999999999999999999 1\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 64);
}
END_TEST

START_TEST(the_least_quota_of_version_1_counts)
{
	if (!replace("7:cpuset:/x\n4:cpu,cpuacct:/a/b\n0::/\n"))
		return;
	set("cpu/x/cpu.cfs_quota_us", "100000\n");
	set("cpu/x/cpu.cfs_period_us", "100000\n");
	set("cpu/a/b/cpu.cfs_quota_us", "-1\n");
	set("cpu/a/b/cpu.cfs_period_us", "100000\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 64);
	set("cpu/a/cpu.cfs_quota_us", "400000\n");
	set("cpu/a/cpu.cfs_period_us", "100000\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 4);
	/* In a container, the root is the group. */
	set("cpu/cpu.cfs_quota_us", "50000\n");
	set("cpu/cpu.cfs_period_us", "50000\n");
	ck_assert_uint_eq(cgroup_cpu_quota(64), 1);
}
END_TEST

START_TEST(the_least_memory_limit_of_both_versions_counts)
{
	if (!replace("7:memory:/x/y\n0::/a\n"))
		return;
	ck_assert_uint_eq(cgroup_memory_limit(), os_ram());
	set("memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
	ck_assert_uint_eq(cgroup_memory_limit(), os_ram());
	set("memory/x/memory.limit_in_bytes", "400000000\n");
	ck_assert_uint_eq(cgroup_memory_limit(), 400000000);
	set("a/memory.max", "max\n");
	ck_assert_uint_eq(cgroup_memory_limit(), 400000000);
	set("memory.max", "300000000\n");
	ck_assert_uint_eq(cgroup_memory_limit(), 300000000);
}
END_TEST

Suite *
cgroup_suite(void)
{
	Suite *s = suite_create("cgroup");
	TCase *c = tcase_create("all");

	suite_add_tcase(s, c);
	tcase_add_test(c, the_least_quota_of_version_2_counts_rounded_up);
	tcase_add_test(c, the_least_quota_of_version_1_counts);
	tcase_add_test(c, the_least_memory_limit_of_both_versions_counts);
	return s;
}
