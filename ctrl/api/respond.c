/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes libmicrohttpd's response of an answer. */
#include <stdlib.h>
#include <string.h>

#include "ctrl/api/server_priv.h"

#define STREAM_BLOCK 16384

/* A stream for libmicrohttpd's callbacks. */
struct stream {
	api_read read;
	void (*end)(void *stream);
	void *stream;
};

static ssize_t
read_stream(void *cls, uint64_t at, char *out, size_t room)
{
	struct stream *stream = cls;
	ssize_t got = stream->read(stream->stream, out, room);

	(void)at;
	if (got > 0)
		return got;
	return got == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void
end_stream(void *cls)
{
	struct stream *stream = cls;

	if (stream->end != NULL)
		stream->end(stream->stream);
	free(stream);
}

static struct MHD_Response *
make_stream(struct api_answer *answer)
{
	struct stream *stream = malloc(sizeof(*stream));
	struct MHD_Response *response;

	if (stream == NULL)
		return NULL;
	*stream = (struct stream){answer->read, answer->stream_free, answer->stream};
	response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, stream, end_stream);
	if (response == NULL)
		free(stream); /* the answer still owns stream->stream */
	else
		answer->stream_free = NULL;
	return response;
}

static struct MHD_Response *
make_bytes(char **bytes, size_t length)
{
	struct MHD_Response *response = *bytes == NULL
		? NULL
		: MHD_create_response_from_buffer(length, *bytes, MHD_RESPMEM_MUST_FREE);

	if (response != NULL)
		*bytes = NULL;
	return response;
}

/* Adds a line end, for terminals. */
static struct MHD_Response *
make_json(const json_t *json)
{
	size_t length = json_dumpb(json, NULL, 0, JSON_COMPACT);
	char *text = length == 0 ? NULL : malloc(length + 1);
	struct MHD_Response *response;

	if (text == NULL)
		return NULL;
	json_dumpb(json, text, length, JSON_COMPACT);
	text[length] = '\n';
	response = make_bytes(&text, length + 1);
	free(text);
	return response;
}

static struct MHD_Response *
make_response(struct api_answer *answer)
{
	if (answer->read != NULL)
		return make_stream(answer);
	if (answer->json != NULL)
		return make_json(answer->json);
	if (answer->bytes != NULL)
		return make_bytes(&answer->bytes, answer->length);
	return MHD_create_response_from_buffer(
		answer->length, (void *)(uintptr_t)answer->constant, MHD_RESPMEM_PERSISTENT);
}

static bool
has_header(const struct api_answer *answer, const char *name)
{
	for (unsigned int i = 0; i < answer->nb_headers; i++)
		if (strcmp(answer->header[i].name, name) == 0)
			return true;
	return false;
}

static void
add_headers(struct MHD_Response *response, const struct api_answer *answer)
{
	static const char *const usual[][2] = {
		{"Cache-Control", "no-store"},
		{"X-Content-Type-Options", "nosniff"},
		{"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
	};

	MHD_add_response_header(response, "Content-Type", answer->type);
	for (unsigned int i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (!has_header(answer, usual[i][0]))
			MHD_add_response_header(response, usual[i][0], usual[i][1]);
	for (unsigned int i = 0; i < answer->nb_headers; i++)
		MHD_add_response_header(response, answer->header[i].name, answer->header[i].value);
}

enum MHD_Result
api_respond(struct MHD_Connection *connection, struct api_call *call)
{
	const struct api_connection *c = api_connection_of(connection);
	struct api_answer *answer = &call->answer;
	struct MHD_Response *response = make_response(answer);
	enum MHD_Result queued;

	if (response == NULL) {
		api_error_memory(call);
		response = make_response(answer);
	}
	if (response == NULL)
		return MHD_NO; /* the connection is closed */
	add_headers(response, answer);
	if (c == NULL || c->retired)
		MHD_add_response_header(response, "Connection", "close");
	queued = MHD_queue_response(connection, answer->status, response);
	MHD_destroy_response(response);
	api_answer_clear(answer);
	return queued;
}
