/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of tests/eal use of Criterion, which cannot run under ThreadSanitizer. Each case is a process of its
 * own here, too. Prints TAP; a report of the sanitizer fails the case by its exit status.
 *
 *     eal_ppe_stress [PATTERN]    the cases whose suite/name match it, as `*window_8`; default: all
 */
#ifndef TESTS_THREAD_CRITERION_H
#define TESTS_THREAD_CRITERION_H

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC system_header /* no warnings of its macros, as of Criterion's */

#define PLAIN_LIMIT_S 500 /* of a case; the sanitizer makes all of it some ten times as long */

struct plain_test {
	const char *suite, *name;
	void (*run)(void);
	struct plain_test *next;
};

/* One of each in an executable, whatever its files. */
__attribute__((weak)) struct plain_test *plain_tests;
__attribute__((weak)) int plain_failed;

#define Test(suite_, name_, ...)                                                                   \
	static void suite_##_##name_(void);                                                        \
	__attribute__((constructor)) static void suite_##_##name_##_add(void)                      \
	{                                                                                          \
		static struct plain_test test = {#suite_, #name_, suite_##_##name_, NULL};         \
		struct plain_test **last = &plain_tests;                                           \
                                                                                                   \
		while (*last != NULL)                                                              \
			last = &(*last)->next;                                                     \
		*last = &test;                                                                     \
	}                                                                                          \
	static void suite_##_##name_(void)

/* Fails the case, and ends it if it must. The text is optional. */
#define PLAIN_THAT(must, good, ...)                                                                \
	do {                                                                                       \
		if (!(good)) {                                                                     \
			printf("# %s:%d: not so: %s;", __FILE__, __LINE__, #good);                 \
			printf(" " __VA_ARGS__);                                                   \
			printf("\n");                                                              \
			fflush(stdout);                                                            \
			plain_failed = 1;                                                          \
			if (must)                                                                  \
				exit(1);                                                           \
		}                                                                                  \
	} while (0)

#define cr_assert(good, ...)           PLAIN_THAT(1, good, __VA_ARGS__)
#define cr_assert_not(bad, ...)        PLAIN_THAT(1, !(bad), __VA_ARGS__)
#define cr_assert_fail(...)            PLAIN_THAT(1, 0, __VA_ARGS__)
#define cr_assert_eq(a, b, ...)        PLAIN_THAT(1, (a) == (b), __VA_ARGS__)
#define cr_assert_neq(a, b, ...)       PLAIN_THAT(1, (a) != (b), __VA_ARGS__)
#define cr_assert_lt(a, b, ...)        PLAIN_THAT(1, (a) < (b), __VA_ARGS__)
#define cr_assert_leq(a, b, ...)       PLAIN_THAT(1, (a) <= (b), __VA_ARGS__)
#define cr_assert_gt(a, b, ...)        PLAIN_THAT(1, (a) > (b), __VA_ARGS__)
#define cr_assert_geq(a, b, ...)       PLAIN_THAT(1, (a) >= (b), __VA_ARGS__)
#define cr_assert_null(a, ...)         PLAIN_THAT(1, (a) == NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...)     PLAIN_THAT(1, (a) != NULL, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)    PLAIN_THAT(1, strcmp(a, b) == 0, __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) PLAIN_THAT(1, memcmp(a, b, n) == 0, __VA_ARGS__)
#define cr_expect(good, ...)           PLAIN_THAT(0, good, __VA_ARGS__)
#define cr_expect_not(bad, ...)        PLAIN_THAT(0, !(bad), __VA_ARGS__)
#define cr_expect_fail(...)            PLAIN_THAT(0, 0, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)        PLAIN_THAT(0, (a) == (b), __VA_ARGS__)
#define cr_expect_neq(a, b, ...)       PLAIN_THAT(0, (a) != (b), __VA_ARGS__)
#define cr_expect_lt(a, b, ...)        PLAIN_THAT(0, (a) < (b), __VA_ARGS__)
#define cr_expect_leq(a, b, ...)       PLAIN_THAT(0, (a) <= (b), __VA_ARGS__)
#define cr_expect_gt(a, b, ...)        PLAIN_THAT(0, (a) > (b), __VA_ARGS__)
#define cr_expect_geq(a, b, ...)       PLAIN_THAT(0, (a) >= (b), __VA_ARGS__)
#define cr_expect_null(a, ...)         PLAIN_THAT(0, (a) == NULL, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)    PLAIN_THAT(0, strcmp(a, b) == 0, __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...) PLAIN_THAT(0, memcmp(a, b, n) == 0, __VA_ARGS__)

/* Run a case in a process that begins anew, as with Criterion. Returns its wait status. */
static inline int
plain_alone(const struct plain_test *test)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO); /* which is for TAP */
		execl("/proc/self/exe", "case", test->suite, test->name, NULL);
		_exit(127);
	}
	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

static inline bool
plain_matches(const struct plain_test *test, int argc, char **argv)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", test->suite, test->name);
	return argc < 2 || fnmatch(argv[1], name, 0) == 0;
}

__attribute__((weak)) int
main(int argc, char **argv)
{
	unsigned int number = 0, failed = 0;
	const struct plain_test *t;

	for (t = plain_tests; t != NULL; t = t->next) {
		if (argc == 3 && strcmp(argv[1], t->suite) == 0 && strcmp(argv[2], t->name) == 0) {
			alarm(PLAIN_LIMIT_S);
			t->run();
			return plain_failed;
		}
		number += plain_matches(t, argc, argv);
	}
	printf("1..%u\n", number);
	fflush(stdout);
	number = 0;
	for (t = plain_tests; t != NULL; t = t->next) {
		int status;

		if (!plain_matches(t, argc, argv))
			continue;
		status = plain_alone(t);
		failed += status != 0;
		printf("%sok %u - %s/%s, wait status %d\n", status == 0 ? "" : "not ", ++number,
			t->suite, t->name, status);
		fflush(stdout);
	}
	return failed != 0;
}

#endif
