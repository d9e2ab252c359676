/* SPDX-License-Identifier: BSD-3-Clause */
/* A program to be loaded: it counts UDP packets by source, and passes or drops them. Variants of it,
 * by macros, are not to be loaded. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ppe/program_fast.h"

#define SOURCES 8

#ifndef LOADED_NAME
#define LOADED_NAME "loaded"
#define LOADED_STATISTICS
#endif

struct loaded {
	uint64_t packets, drops;
	bool drop;
	uint32_t nb_sources;
	struct {
		uint32_t address;
		uint16_t port;
		uint64_t mac, packets;
	} source[SOURCES];
};

static struct ppe_next
count(struct ppe_worker *worker, struct ppe_thread *thread)
{
	struct loaded *state = ppe_state(worker, thread);
	uint32_t address = thread->head.ip_src, i = 0;

	state->packets++;
	while (i < state->nb_sources && state->source[i].address != address)
		i++;
	if (i == state->nb_sources && i < SOURCES) {
		state->source[i].address = address;
		state->source[i].port = thread->port;
		for (unsigned int b = 6; b < 12; b++)
			state->source[i].mac = state->source[i].mac << 8 | thread->head.bytes[b];
		state->nb_sources++;
	}
	if (i < state->nb_sources)
		state->source[i].packets++;
	if (!state->drop)
		return ppe_consume(worker, thread);
	state->drops++;
	return ppe_drop(worker, thread, PPE_DROP_NO_PROGRAM);
}

static int
create(const struct ppe_setup *setup, void **state)
{
	struct ppe_match match = {.conditions = PPE_MATCH_UDP_PORT,
		.udp_port = (uint16_t)ppe_setting(setup, "port"),
		.udp_any = 15};
	struct loaded *loaded = calloc(1, sizeof(*loaded));

	if (loaded == NULL)
		return -ENOMEM;
	*state = loaded;
	loaded->drop = ppe_setting(setup, "then") == 1;
	if (strcmp(ppe_setting_text(setup, "label"), "refuse") == 0)
		return -ENODEV;
	return ppe_match_add(setup, &match);
}

static void
destroy(void *state, struct ppe_program_leaks *leaks)
{
	(void)leaks;
	free(state);
}

#ifdef LOADED_STATISTICS
static uint64_t
packets_of(const void *state)
{
	return ((const struct loaded *)state)->packets;
}

static uint64_t
sources_of(const void *state)
{
	return ((const struct loaded *)state)->nb_sources;
}
#endif

static unsigned int
read_sources(const void *const *states, unsigned int workers, uint64_t (*rows)[PPE_TABLE_COLUMNS],
	unsigned int max)
{
	unsigned int count = 0;

	for (unsigned int w = 0; w < workers; w++) {
		const struct loaded *state = states[w];

		for (uint32_t i = 0; i < state->nb_sources && count < max; i++, count++) {
			rows[count][0] = state->source[i].address;
			rows[count][1] = state->source[i].mac;
			rows[count][2] = state->source[i].port;
			rows[count][3] = state->source[i].packets;
		}
	}
	return count;
}

static const struct ppe_setting settings[] = {
	{"port", PPE_SETTING_INTEGER, "48864", 1024, 65535, NULL, "udp", "First of 16 UDP ports."},
	{"then", PPE_SETTING_CHOICE, "consume", 0, 0, "consume|drop", NULL,
		"What happens to packets."},
	{"quick", PPE_SETTING_BOOLEAN, "false", 0, 0, NULL, NULL, "Not used."},
	{"peer", PPE_SETTING_IPV4, "239.1.2.3", 0, 0, NULL, NULL, "Not used."},
	{"label", PPE_SETTING_TEXT, "", 0, 15, NULL, NULL, "\"refuse\": it cannot be created."},
	{0},
};

static const struct ppe_table tables[] = {
	{"sources", "senders of packets",
		{{"address", "IPv4 address", PPE_COLUMN_IPV4},
			{"mac", "MAC address", PPE_COLUMN_MAC},
			{"port", "port of the switch", PPE_COLUMN_PORT},
			{"packets", "packets received", PPE_COLUMN_NUMBER}},
		read_sources},
	{0},
};

static const struct ppe_program loaded_program = {
	.name = LOADED_NAME,
	.first = count,
	.create = create,
	.destroy = destroy,
	.settings = settings,
#ifdef LOADED_STATISTICS
	.statistics = {{"loaded_packets", "weir_loaded_packets_total", "packets of the test",
			       PPE_STATISTIC_COUNTER, false, packets_of},
		{"loaded_sources", "weir_loaded_sources", "senders of the test",
			PPE_STATISTIC_GAUGE, false, sources_of}},
#endif
	.tables = tables,
	.help = "counts packets by source",
	.segments = {(const struct ppe_segment_name[]){
		{count, "loaded_count", "consume drop:no_program"}, {0}}},
#ifdef LOADED_SIDECAR
	.sidecar = "loaded_sidecar",
#endif
};

#ifndef LOADED_WRONG_CONTRACT
PPE_PROGRAM_FILE(loaded_program);
#elif LOADED_WRONG_CONTRACT > 0
extern const struct ppe_program_file weir_program;
const struct ppe_program_file weir_program = {{PPE_CONTRACT_VERSION + LOADED_WRONG_CONTRACT / 2,
						      RTE_VER_YEAR * 100 + RTE_VER_MONTH, 1, 2, 3},
	&loaded_program};
#else
/* No symbol. */
extern const struct ppe_program *loaded_no_symbol;
const struct ppe_program *loaded_no_symbol = &loaded_program;
#endif

#ifdef LOADED_CONSTRUCTOR
static void __attribute__((constructor)) begin(void)
{
	if (LOADED_CONSTRUCTOR == SIGSTOP)
		pause();
	raise(LOADED_CONSTRUCTOR);
}
#endif

#ifdef LOADED_UNDEFINED
void ppe_no_such_function(void);
void loaded_calls(void);
void
loaded_calls(void)
{
	ppe_no_such_function();
}
#endif
