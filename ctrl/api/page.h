/* SPDX-License-Identifier: BSD-3-Clause */
/* The live page: the files of ctrl/api/page/, as they were when the program was built. */
#ifndef CTRL_API_PAGE_H
#define CTRL_API_PAGE_H

#include <stddef.h>

/* What every answer with a file of the page says, so that a name from the network can never become code. */
#define CTRL_PAGE_SECURITY                                                                         \
	"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

struct page_file {
	const char *path; /* as in the request line: "/", "/app.js" */
	const char *type; /* value of Content-Type */
	const char *etag; /* value of ETag, with its quotation marks: changes with the content */
	const unsigned char *bytes;
	size_t length; /* bytes */
};

/* All files, sorted by path; page_files_count of them. Constant: any thread may read. */
extern const struct page_file page_files[];
extern const size_t page_files_count;

/* The file that a request for `path` means, or NULL. A query ("?…") is not part of `path`. */
const struct page_file *page_find(const char *path);

#endif
