/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/config/config_priv.h"
#include "ctrl/config/values.h"

static_assert(CTRL_LOG_ERROR + 4 == CTRL_LOG_DEBUG, "the words of log.level are in this order");

void
ctrl_read_log(struct ctrl_reading *reading)
{
	static const char *const paths[] = {
#define X(name, word, help) "log.rooms." word,
		CTRL_LOG_ROOMS(X)
#undef X
	};
	const json_t *object = json_object_get(reading->root, "log");
	const json_t *rooms = json_object_get(object, "rooms");
	struct ctrl_log_config *log = &reading->config->log;

	log->given = object != NULL;
	for (unsigned int room = 0; room < CTRL_LOG_ROOM_COUNT; room++) {
		int word = ctrl_word(rooms, paths[room]);

		if (word < 0)
			word = ctrl_word(object, "log.level");
		log->level[room] = (enum ctrl_log_level)(CTRL_LOG_ERROR + word);
	}
}
