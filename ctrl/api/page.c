/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /, /{file} */
#include "ctrl/api/page.h"

#include <stdio.h>
#include <string.h>

#include "ctrl/api/call.h"

const struct page_file *
page_find(const char *path)
{
	for (size_t i = 0; i < page_files_count; i++)
		if (strcmp(page_files[i].path, path) == 0)
			return &page_files[i];
	return NULL;
}

void
api_get_page(struct api_call *call)
{
	const struct page_file *file;
	char path[64];

	/* A longer name is cut, and matches no file. */
	snprintf(path, sizeof(path), "/%s",
		call->target->nb_segments == 0 ? "" : call->target->segment[0]);
	file = page_find(path);
	if (file == NULL) {
		api_error(call, 404, "unknown_path", NULL,
			"nothing is here: docs/openapi.yaml lists the paths");
		return;
	}
	api_answer_constant(call, file->type, file->bytes, file->length);
	/* Browsers run no scripts but these files, so text from the network can't become code. */
	api_header(call, "Content-Security-Policy",
		"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	api_header(call, "Referrer-Policy", "no-referrer");
}
