/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference switch (switch_model.h) behind two UDP sockets, with faults on a seed: what
 * libweir and its tools are tested against on the loopback interface. It plays the faulty network
 * too: each datagram, in or out, may be lost, doubled, or overtaken by later ones.
 */
#ifndef TESTS_MODEL_FAKE_SWITCH_H
#define TESTS_MODEL_FAKE_SWITCH_H

#include "tests/model/switch_model.h"

struct fake_switch_config {
	struct model_config job;
	const char *address; /* of 127.0.0.0/8 */
	uint16_t port_base, port_ext; /* 0: any free one; see fake_switch_port */
	double loss, duplicate, reorder; /* probability of each, per datagram, [0, 1) */
	uint64_t seed;
};

struct fake_switch_stats {
	uint64_t received, sent, lost, duplicated, reordered, waiting_replies;
};

struct fake_switch;

/* Open the sockets and start the thread. 0 or -errno. */
int fake_switch_start(const struct fake_switch_config *config, struct fake_switch **fake);
/* Stop the thread, close, free; stats may be NULL. NULL is fine. */
void fake_switch_stop(struct fake_switch *fake, struct fake_switch_stats *stats);
uint16_t fake_switch_port(const struct fake_switch *fake, bool extended);
/* From now on the switch hears nothing and says nothing (or again does). Any thread. */
void fake_switch_mute(struct fake_switch *fake, bool mute);

#endif
