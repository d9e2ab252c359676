/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A switch with the program switchml, and its hosts: what they send and must get, by the plainest code there is. A host is
 * behind port h % PORTS. Functions end the test with a message when something is not as they expect.
 */
#ifndef TESTS_EAL_SWITCHML_H
#define TESTS_EAL_SWITCHML_H

#include "ppe/load.h"
#include "ppe/ppe_priv.h"
#include "tests/eal/bench.h"

#define PORT     0xbee0 /* the program's first UDP port */
#define FROM     12345 /* UDP port of the hosts */
#define SET      0x8000 /* in a pool index */
#define HOSTS    32
#define SLOTS    8
#define PORTS    8
#define HEADERS  42
#define FRAME    2048
#define WAITING  4096 /* answers */
#define FORGET_S 3

extern const struct ppe_program_file weir_program;

/* Settings of the program. */
struct setup {
	unsigned int hosts, elements;
	bool after; /* the dialect */
};
extern struct setup setup;
extern unsigned int lcores;
extern bool one_port; /* all hosts are behind a port: their packets have an order */

/* Answers that came and that no test has taken: [first, nb_answers). */
struct answer {
	unsigned int port, bytes;
	uint8_t frame[FRAME];
};
extern struct answer *answers;
extern unsigned int first, nb_answers;

/* What a packet says; a sum in the same form. */
struct message {
	uint16_t pool, udp, to; /* UDP ports; 0: FROM, PORT */
	uint32_t index;
	uint8_t type, job;
	uint8_t exponent[2];
	uint32_t element[256];
};

/* ---- the switch ---- */

void start_switch(unsigned int workers, unsigned int threads);
void stop_switch(void);

/* create() refuses what settings alone cannot tell. */
void refuses(void);

/* Load it with these settings: empty slots, and nobody is known. */
void load(const struct setup *wanted);
void unload(void);

/* A counter of the program's, over all workers. */
uint64_t counter(const char *key);
bool has_batches(void);
uint64_t batched(void);

/* Every packet that came has left or was dropped. */
void settle(void);

/* No more answers. */
void silence(void);

/* ---- hosts ---- */

unsigned int port_of(unsigned int host);
unsigned int payload_size(void);

/* The pool index of a chunk: chunks of a slot use its sets in turn. */
uint16_t pool_of(unsigned int slot, uint32_t chunk);

/* A contribution with values of its own; a chunk is what hosts sum up. */
struct message message(unsigned int host, uint16_t pool, uint32_t chunk);

/* The frame of a host, in `frame`, and the switch's to it. Returns its bytes. */
unsigned int write_frame_of(unsigned int host, const struct message *m);
unsigned int write_answer(unsigned int host, const struct message *m);

void put(unsigned int host, const struct message *m);
void contribute_to(unsigned int host, uint16_t pool, uint32_t chunk);

/* Add a message to a sum. */
void add(struct message *sum, const struct message *m);

/* The sum of all hosts' contributions. */
struct message sum_of(uint16_t pool, uint32_t chunk);

/* One of the answers that wait is this. */
void expect_answer(unsigned int host, const struct message *m);
void expect_sum_of(unsigned int host, uint16_t pool, uint32_t chunk);

/* All hosts contribute, one after the other, and get the sum: only then. */
void reduce_chunk(uint16_t pool, uint32_t chunk);

/* Random traffic with losses and duplicates, against a reference that keeps no bitmaps: switchml_random.c */
void random_traffic(void);

#endif
