/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory behind which nothing may be touched. */
#ifndef TESTS_UNIT_PAGE_END_H
#define TESTS_UNIT_PAGE_END_H

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>

/* The end of a page of zeros, before one that can't be read. Never freed. */
static inline uint8_t *
page_end(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	cr_assert_eq(mprotect(p + page, page, PROT_NONE), 0);
	return p + page;
}

#endif
