/* SPDX-License-Identifier: BSD-3-Clause */
/* POST /v1/simulate: what the switch would do with a frame. */
#include "ppe/simulate.h"

#include <string.h>

#include "ctrl/api/call.h"
#include "ctrl/programs/programs.h"

static int
digit(char c)
{
	const char *digits = "0123456789abcdef", *at = strchr(digits, c | 0x20);

	return c == '\0' || at == NULL ? -1 : (int)(at - digits);
}

/* Read pairs of hexadecimal digits. Returns the number of bytes; -1: it is something else. */
static int
read_hex(const char *text, uint8_t *bytes, size_t room)
{
	size_t n = 0;

	for (; text[0] != '\0' && n < room; text += 2, n++) {
		if (digit(text[0]) < 0 || digit(text[1]) < 0)
			return -1;
		bytes[n] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
	}
	return text[0] == '\0' ? (int)n : -1;
}

/* The index of the port of this name, NULL: of the first one; nb_ports: there is none. */
static unsigned int
port_named(const struct ctrl_config *config, const char *name)
{
	unsigned int p = 0;

	while (name != NULL && p < config->nb_ports && strcmp(config->port[p].name, name) != 0)
		p++;
	return p;
}

static json_t *
steps_json(const struct ppe_explanation *said)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < said->nb_steps; i++) {
		json_t *object = json_object();

		API_STEP(API_PUT, API_SKIP)
		json_array_append_new(list, object);
	}
	return list;
}

void
api_simulate(struct api_call *call)
{
	static uint8_t frame[PPE_SIMULATE_BYTES_MAX];
	static struct ppe_explanation said;
	const char *text = json_string_value(json_object_get(call->body, "frame"));
	const char *port = json_string_value(json_object_get(call->body, "port"));
	int bytes = read_hex(text, frame, sizeof(frame));
	unsigned int index = port_named(call->config, port);
	struct ctrl_match_text match = {""};
	json_t *object;

	if (bytes < 0) {
		api_error(call, 400, "out_of_range", "frame",
			"frame: must be pairs of hexadecimal digits, without blanks, of up to %d "
			"bytes",
			PPE_SIMULATE_BYTES_MAX);
		return;
	}
	if (index == call->config->nb_ports ||
		ppe_simulate(call->running->ppe, frame, (size_t)bytes, index, &said) < 0) {
		api_error(call, 400, "out_of_range", "port", "port: no port is called \"%.64s\"",
			port == NULL ? "" : port);
		return;
	}
	object = json_object();
	if (said.match != NULL)
		match = ctrl_match_text(said.match);
	API_SIMULATION(API_PUT, API_SKIP)
	api_answer(call, 200, object);
}
