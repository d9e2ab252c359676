/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for the readers of the control plane: the configuration, the state of a former run, bodies and
 * targets of requests. The first byte says for whom.
 */
#include <errno.h>
#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/config/config.h"
#include "ctrl/jobs/state.h"
#include "tests/fuzz/fuzz.h"

/* A refusal is one line. */
static void
check_refusal(int rc, const char *error)
{
	FUZZ_CHECK(rc < 0, "%d", rc);
	FUZZ_CHECK(error[0] != '\0' && memchr(error, '\0', CTRL_ERROR_BYTES) != NULL,
		"refused without a reason");
	FUZZ_CHECK(strpbrk(error, "\n\r") == NULL, "a reason of two lines: %s", error);
}

static void
configuration(const char *text, size_t size)
{
	char error[CTRL_ERROR_BYTES] = "";
	struct ctrl_config *config = NULL;
	unsigned int line, column;
	int rc = ctrl_config_parse(text, size, "fuzz.json", &config, error, sizeof(error));

	if (rc < 0) {
		FUZZ_CHECK(config == NULL, "refused, and there is one");
		check_refusal(rc, error);
		FUZZ_CHECK(rc == -EINVAL && sscanf(error, "fuzz.json:%u:%u: ", &line, &column) == 2,
			"no place in the text: %d, %s", rc, error);
		return;
	}
	FUZZ_CHECK(config->nb_ports >= 1 && config->nb_ports <= PPE_PORTS_MAX, "%u ports",
		config->nb_ports);
	FUZZ_CHECK(config->memory.total <= (uint64_t)config->memory_mb << 20,
		"takes more than its memory");
	for (unsigned int j = 0; j < config->nb_jobs; j++) {
		const struct ppe_job *job = &config->job[j];

		FUZZ_CHECK(config->jobs.by_id[job->id] == job, "job %u is not in the table", j);
		FUZZ_CHECK(job->window >= 1 && job->window <= PPE_WINDOW_MAX &&
				(job->window & (job->window - 1)) == 0,
			"window %u", job->window);
		FUZZ_CHECK(job->nb_sources >= 1 && job->nb_sources <= WEIR_SOURCES_MAX &&
				job->elements >= 1 && job->elements <= WEIR_ELEMENTS_MAX,
			"%u sources, %u elements", job->nb_sources, job->elements);
	}
	ctrl_config_destroy(config);
}

static void
state(const char *text, size_t size)
{
	char error[CTRL_ERROR_BYTES] = "";
	json_t *read = NULL;
	int rc = ctrl_state_parse(text, size, "fuzz.state", "weir", &read, error, sizeof(error));

	if (rc < 0) {
		FUZZ_CHECK(read == NULL, "refused, and there is one");
		check_refusal(rc, error);
	}
	json_decref(read);
}

static const struct ctrl_key keys[] = {
	{"name", CTRL_NAME, "", NULL, .min = 1, .max = 31},
	{"window", CTRL_POWER, "", "64", .min = 1, .max = 4096},
	{"on", CTRL_BOOLEAN, "", .fallback = ""},
	{"policy", CTRL_WORD, "", "", .words = "wait|partial|error"},
	{"text", CTRL_TEXT, "", "", .min = 1, .max = 3},
	{"address", CTRL_ADDRESS, "", .fallback = ""},
	{"results", CTRL_RESULTS, "", .fallback = ""},
	{"create", CTRL_OBJECT, "", .fallback = ""},
	{"create.n", CTRL_INTEGER, "", NULL, .max = 9},
};

static const struct ctrl_schema schema = {keys, sizeof(keys) / sizeof(keys[0])};

static void
body(const char *text, size_t size)
{
	struct api_call call = {.body = NULL};

	call.body = api_body_parse(&call, text, size);
	if (call.body == NULL || !api_body_check(&call, &schema)) {
		FUZZ_CHECK(call.answer.status == 400, "refused with %u", call.answer.status);
	} else {
		const json_t *given = json_object_get(call.body, "window");
		json_int_t window = given == NULL ? 64 : json_integer_value(given);

		FUZZ_CHECK(window >= 1 && window <= 4096 && (window & (window - 1)) == 0,
			"window %lld", (long long)window);
		FUZZ_CHECK(json_string_length(json_object_get(call.body, "name")) <= 31,
			"a long name");
	}
	json_decref(call.body);
	api_answer_clear(&call.answer);
}

/* Method and target, as a request line has them. */
static void
request(char *text)
{
	static struct api_target target;
	struct api_call call = {.target = &target};
	char *raw = strchr(text, ' ');
	const struct api_operation *operation;

	if (raw == NULL)
		return;
	*raw++ = '\0';
	if (!api_target_parse(&target, raw))
		return;
	operation = api_route_find(&call, text);
	if (operation == NULL)
		FUZZ_CHECK(call.answer.status == 404 || call.answer.status == 405,
			"no route, and status %u", call.answer.status);
	else if (api_query_check(&call, &operation->query))
		FUZZ_CHECK(call.answer.status == 0, "answered %u before it is served",
			call.answer.status);
	json_decref(call.query);
	api_answer_clear(&call.answer);
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;
	uint8_t whose;

	if (size == 0)
		return 0;
	whose = data[0];
	size--;
	/* As its readers get it: with a zero behind it, and not a byte more. */
	text = malloc(size + 1);
	if (text == NULL)
		return 0;
	memcpy(text, data + 1, size);
	text[size] = '\0';
	switch (whose) {
	case 's': state(text, size); break;
	case 'b': body(text, size); break;
	case 'r': request(text); break;
	default: configuration(text, size); break;
	}
	free(text);
	return 0;
}
