/* SPDX-License-Identifier: BSD-3-Clause */
/* What a handle has for one generation: joined, made as the switch tells the job to be, and given up. */
#include "apps/libweir/weir_priv.h"
#include "apps/libweir/control.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int
create_inbox(struct weir_inbox *in, unsigned int elements)
{
	/* No result is longer: 4 bytes an element (weir_elements), at least one of 8. */
	size_t payload = elements > 1 ? elements * 4u : 8u;

	in->stride = WEIR_EXT_BYTES + payload + WEIR_BITMAP_BYTES + WEIR_TAG_BYTES;
	in->bytes = malloc(WEIR_BATCH * in->stride);
	if (in->bytes == NULL)
		return -ENOMEM;
	for (int i = 0; i < WEIR_BATCH; i++) {
		in->vectors[i] = (struct iovec){in->bytes + (size_t)i * in->stride, in->stride};
		in->messages[i].msg_hdr = (struct msghdr){
			.msg_name = &in->from[i],
			.msg_iov = &in->vectors[i],
			.msg_iovlen = 1,
		};
	}
	return 0;
}

static int
start_thread(struct weir *weir)
{
	sigset_t all, before;
	int error;

	/* The application's signals are the application's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	weir->running = true;
	error = pthread_create(&weir->thread, NULL, weir_progress, weir);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error == 0)
		return 0;
	weir->running = false;
	return weir_explain(weir, -error, "cannot start the progress thread: %s", strerror(error));
}

int
weir_begin(struct weir *weir)
{
	int code = weir_join(weir);

	if (code < 0)
		return weir_inquire(weir, code);
	if (weir->group.s_addr != 0)
		code = weir_socket_join_group(weir);
	if (code < 0)
		return code;
	if (create_inbox(&weir->inbox, weir->elements) < 0)
		return weir_explain(weir, -ENOMEM, "out of memory");
	weir_socket_size(weir);
	if (weir_ring_create(&weir->ring, weir->ring.window) < 0)
		return weir_explain(weir, -ENOMEM, "out of memory");
	weir->outbox = calloc(1, sizeof(*weir->outbox));
	if (weir->outbox == NULL || weir_ahead_create(weir) < 0)
		return weir_explain(weir, -ENOMEM, "out of memory");
	return start_thread(weir);
}

void
weir_generation_set(struct weir *weir, int code)
{
	weir->failed = code;
	snprintf(weir->failure, sizeof(weir->failure), "%s", code < 0 ? weir->error : "");
	if (code < 0)
		weir_say(weir, code, weir->failure);
}

static void
end_thread(struct weir *weir)
{
	if (!weir->running)
		return;
	pthread_mutex_lock(&weir->lock);
	weir->stop = true;
	weir_drive_soon(weir);
	pthread_mutex_unlock(&weir->lock);
	pthread_join(weir->thread, NULL);
	weir->running = false;
	weir->stop = false;
}

void
weir_end(struct weir *weir)
{
	end_thread(weir);
	if (weir->group_fd >= 0)
		close(weir->group_fd);
	weir->group_fd = -1;
	weir->group.s_addr = 0;
	weir_ring_destroy(&weir->ring);
	weir_ahead_destroy(weir);
	free(weir->inbox.bytes);
	free(weir->outbox);
	weir->outbox = NULL;
	memset(&weir->ring, 0, sizeof(weir->ring));
	memset(&weir->inbox, 0, sizeof(weir->inbox));
	weir->next_block = 0;
	weir->next_number = 0;
	weir->generation = 0;
	weir->have_waiting = false;
	weir->network_error = 0;
	weir->sources = 0;
	weir->hot_until = 0;
	weir->error[0] = '\0';
	weir->join_timeout = weir->join_patience;
}

/* A membership may have expired, or the job been made anew, with other keys and another number. The
 * control API has half of the time: without it the former membership may do. */
static int
begin_again(struct weir *weir)
{
	uint64_t now = weir_now(), deadline = now + weir->join_timeout;
	int code = weir_control_rejoin(weir, now + weir->join_timeout / 2);

	if (code < 0)
		return code;
	now = weir_now();
	weir->join_timeout = deadline > now ? deadline - now : 1;
	return weir_begin(weir);
}

int
weir_rejoin(struct weir *weir)
{
	bool busy;
	int code = weir != NULL ? weir_check_process(weir) : -EINVAL;

	if (code < 0)
		return code;
	pthread_mutex_lock(&weir->lock);
	busy = weir->rejoining || !TAILQ_EMPTY(&weir->requests) || !TAILQ_EMPTY(&weir->over);
	if (!busy)
		weir->rejoining = true;
	pthread_mutex_unlock(&weir->lock);
	if (busy)
		return weir_say(weir, -EBUSY,
			"an operation, another thread's perhaps, is under way on this handle, or "
			"its request was not waited for");
	if (weir->fd >= 0) {
		weir_end(weir);
		weir_generation_set(weir, begin_again(weir));
	} else { /* weir_open has failed before there was anything to join with */
		weir_say(weir, weir->failed, weir->failure);
	}
	pthread_mutex_lock(&weir->lock);
	weir->rejoining = false;
	pthread_mutex_unlock(&weir->lock);
	return weir->failed;
}
