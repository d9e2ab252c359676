/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bench for programs that are loaded: a switch in virtual time (tests/eal/rig.h) with the built-in programs and one
 * shared object, and datagrams to and from the switch. Host h is behind port h, with the addresses of source h. Main
 * thread, once per process.
 */
#ifndef TESTS_EAL_LOADED_H
#define TESTS_EAL_LOADED_H

#include "tests/eal/bench.h"

#define LOADED_HEADERS 42 /* bytes in front of a datagram's payload */

/* A setting that differs from its default; the last one has no key. */
struct setting {
	const char *key;
	int64_t number;
};

/* Start a switch of so many workers and ports, and load build/ppe/NAME.so. */
void launch(
	unsigned int workers, unsigned int ports, const char *name, const struct setting *changes);

/* Unload it, and stop. */
void finish(void);

/* Send a datagram from a host's UDP port to the switch, and have its way explained before: `said_end`. */
void send_udp(unsigned int host, uint16_t from, uint16_t to, const uint8_t *bytes, unsigned int n);

/* The next datagram to a host: sets `payload` and `payload_bytes`. It comes from the switch's UDP port `from`. false: there
 * is none, now or within `ms`. */
bool receive_udp(unsigned int host, uint16_t from, uint16_t to, unsigned int ms);

/* The value of a statistic. */
uint64_t counted(const char *key);

/* The program, and its state on a worker. */
extern const struct ppe_program *loaded;
extern const char *said_end;

#endif
