/* SPDX-License-Identifier: BSD-3-Clause */
/* GET /, /{file} */
#include "ctrl/api/page.h"

#include <string.h>

#include "ctrl/api/call.h"

void
api_get_page_file(struct api_call *call)
{
	const char *name = call->target->nb_segments == 0 ? "" : call->target->segment[0];
	size_t i = 0;

	while (i < page_files_count && strcmp(page_files[i].path + 1, name) != 0)
		i++;
	if (i == page_files_count) {
		api_error_unknown(call);
		return;
	}
	api_answer_constant(call, page_files[i].type, page_files[i].bytes, page_files[i].length);
	/* Browsers run no scripts but these files, so text from the network can't become code. */
	api_header(call, "Content-Security-Policy",
		"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
	api_header(call, "Referrer-Policy", "no-referrer");
}

void
api_get_page(struct api_call *call)
{
	api_get_page_file(call);
}
