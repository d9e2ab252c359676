/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport of your own, around libweir's UDP: it drops every n-th datagram that a process sends (LOSSY_EVERY; 100),
 * and the program sees that libweir sends them again.
 *
 *	WEIR_TRANSPORT=./libweir-lossy.so LOSSY_EVERY=50 ./host
 */
#include <pthread.h>
#include <stdlib.h>

#include <weir-transport.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct weir_transport_ops *udp;
static struct weir_transport_ops lossy; /* udp's, with another send() */
static unsigned int every = 100, sent;

static int
lossy_send(struct weir_transport *t, const struct weir_tx *tx, unsigned int n)
{
	(void)n; /* one is enough; the caller offers the others again */
	if (__atomic_add_fetch(&sent, 1, __ATOMIC_RELAXED) % every == 0)
		return 1;
	return udp->send(t, tx, 1);
}

static int
lossy_open(struct weir_transport_config *config, struct weir_transport **t, char *text, size_t size)
{
	const char *number = getenv("LOSSY_EVERY");
	int code = config->udp->open(config, t, text, size);

	if (code < 0)
		return code;
	pthread_mutex_lock(&lock);
	if (udp == NULL) {
		if (number != NULL && atoi(number) > 0)
			every = (unsigned int)atoi(number);
		udp = config->udp;
		lossy = *udp;
		lossy.send = lossy_send;
	}
	pthread_mutex_unlock(&lock);
	(*t)->ops = &lossy;
	return 0;
}

/* open() replaces it, so that the other functions are those of udp. */
static const struct weir_transport_ops ops = {
	.version = WEIR_TRANSPORT_VERSION, .open = lossy_open};

const struct weir_transport_ops *const weir_transport = &ops;
