/* SPDX-License-Identifier: BSD-3-Clause */
/* docs/write-a-program.md teaches a program: its code blocks, put together, are the files. */
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "tests/model/doc_page.h"

static void
compare(const char *kind, const char *name)
{
	char *page = doc_read("docs/write-a-program.md"), *file = doc_read(name), *block;
	const char *at = page, *rest = file;

	cr_assert_not_null(page);
	cr_assert_not_null(file);
	while ((block = doc_block(&at, kind)) != NULL) {
		cr_assert_eq(strncmp(rest, block, strlen(block)), 0,
			"the block that ends at line %u of the page is not at line %u of %s",
			doc_line(page, at) - 1, doc_line(file, rest), name);
		rest += strlen(block);
		free(block);
	}
	cr_assert_eq(
		*rest, 0, "%s goes on at line %u, where the page ends", name, doc_line(file, rest));
	free(page);
	free(file);
}

Test(program_doc, the_page_is_the_program)
{
	compare("h", "docs/examples/flowcount.h");
	compare("c", "docs/examples/flowcount.c");
}

/* "Under 100 lines" is a promise. */
Test(program_doc, it_is_short)
{
	char *file = doc_read("docs/examples/flowcount.c");

	cr_assert_not_null(file);
	cr_assert_leq(doc_line(file, file + strlen(file)), 100);
	free(file);
}
