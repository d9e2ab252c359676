/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/eal/loaded.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "ppe/load.h"
#include "ppe/simulate.h"

const struct ppe_program *loaded;
const char *said_end;
static struct ppe_value values[32];
static struct ppe_explanation said;

static void
read_settings(const struct setting *changes)
{
	for (unsigned int i = 0; loaded->settings != NULL && loaded->settings[i].key != NULL; i++) {
		const struct ppe_setting *s = &loaded->settings[i];

		values[i].number = s->preset != NULL ? strtoll(s->preset, NULL, 0) : 0;
		for (const struct setting *c = changes; c != NULL && c->key != NULL; c++)
			if (strcmp(c->key, s->key) == 0)
				values[i].number = c->number;
	}
}

void
launch(unsigned int workers, unsigned int ports, const char *name, const struct setting *changes)
{
	const struct rig_config config = {.workers = workers, .threads = 8, .ports = ports};
	const struct ppe_program_file *file;
	char path[512];
	void *object;

	snprintf(path, sizeof(path), "%s/%s.so", getenv("WEIR_PROGRAMS"), name);
	object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	cr_assert_not_null(object, "%s", dlerror());
	file = dlsym(object, PPE_PROGRAM_SYMBOL);
	cr_assert_not_null(file);
	cr_assert_eq(file->contract.version, PPE_CONTRACT_VERSION);
	loaded = file->program;
	cr_assert_null(ppe_program_check(loaded), "%s", ppe_program_check(loaded));
	read_settings(changes);
	rig_start(&rig, &config);
	cr_assert_eq(ppe_program_load(rig.ppe, loaded, values), 0);
	rig_turn(&rig);
	ppe_programs_tick(rig.ppe);
}

void
finish(void)
{
	const struct ppe_program *gone = NULL;

	discard();
	rig_check(&rig);
	cr_assert_eq(ppe_program_unload(rig.ppe, loaded->name), 0);
	for (unsigned int i = 0; i < 100 && gone == NULL; i++) {
		pass_ms(1);
		gone = ppe_program_gone(rig.ppe);
	}
	cr_assert_eq(gone, loaded);
	stop();
}

void
send_udp(unsigned int host, uint16_t from, uint16_t to, const uint8_t *bytes, unsigned int n)
{
	uint8_t mac[6];

	rig_source_mac(host, mac);
	rig_headers(frame, mac, rig_source_ip(host), from, to, n);
	memcpy(frame + LOADED_HEADERS, bytes, n);
	rig_fix_checksums(frame);
	cr_assert_eq(ppe_simulate(rig.ppe, frame, LOADED_HEADERS + n, host, &said), 0);
	cr_assert_str_eq(said.program, loaded->name);
	said_end = said.end;
	rig_send(&rig, host, frame, LOADED_HEADERS + n);
}

bool
receive_udp(unsigned int host, uint16_t from, uint16_t to, unsigned int ms)
{
	unsigned int n;
	uint8_t mac[6];

	if (ms == 0)
		rig_rest(&rig);
	n = rig_receive(&rig, host, frame, ms);
	if (n == 0)
		return false;
	rig_source_mac(host, mac);
	cr_assert_geq(n, LOADED_HEADERS);
	cr_assert(rig_checksums_hold(frame), "checksums");
	cr_assert(memcmp(frame, mac, 6) == 0 && memcmp(frame + 6, rig_switch_mac, 6) == 0);
	cr_assert_eq(weir_get32(frame + 26), RIG_SWITCH_IP);
	cr_assert_eq(weir_get32(frame + 30), rig_source_ip(host));
	cr_assert_eq(weir_get16(frame + 34), from);
	cr_assert_eq(weir_get16(frame + 36), to);
	payload = frame + LOADED_HEADERS;
	payload_bytes = n - LOADED_HEADERS;
	cr_assert_eq(weir_get16(frame + 38), 8 + payload_bytes);
	return true;
}

uint64_t
counted(const char *key)
{
	struct ppe_stats stats;

	rig_settle(&rig, &stats);
	return ppe_statistic_value(&stats, key);
}
