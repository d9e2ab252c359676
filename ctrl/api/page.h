/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The live page: the files of ctrl/api/page/, as they were when the program was built.
 * ctrl/api/page/embed.py makes the table.
 */
#ifndef CTRL_API_PAGE_H
#define CTRL_API_PAGE_H

#include <stddef.h>

struct page_file {
	const char *path; /* as in the request line: "/", "/app.js" */
	const char *type; /* value of Content-Type */
	const unsigned char *bytes;
	size_t length; /* bytes */
};

/* All files, sorted by path; page_files_count of them. Constant: any thread may read. */
extern const struct page_file page_files[];
extern const size_t page_files_count;

#endif
