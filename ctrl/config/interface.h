/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel interfaces of this network namespace. */
#ifndef CTRL_INTERFACE_H
#define CTRL_INTERFACE_H

#include <stdint.h>
#include <sys/types.h>

/*
 * Claim an interface for this process until it ends, however it ends. The claim is an abstract Unix
 * socket (unix(7)), named after the interface's index: both belong to the network namespace.
 * Returns a descriptor that holds the claim while it is open; or -EBUSY, and *owner is the process
 * that has claimed the interface (0: unknown, it is in another PID namespace); or another -errno
 * (-ENODEV: there is no such interface).
 */
int ctrl_interface_claim(const char *name, pid_t *owner);

/*
 * Give an interface an IPv4 address (host order) and prefix length [1, 30], and bring it up.
 * 0 or -errno (-ENODEV: there is none, -EPERM: CAP_NET_ADMIN is missing).
 */
int ctrl_interface_set(const char *name, uint32_t address, uint8_t prefix);

/* MTU in bytes, or -errno (-ENODEV: there is no such interface). */
int ctrl_interface_mtu(const char *name);

/* 1 when the interface is up, 0 when not, or -errno. */
int ctrl_interface_is_up(const char *name);

/* 1 when the kernel answers ARP requests on this interface, with its MAC address, for addresses of
 * other interfaces; 0 when not, or -errno. */
int ctrl_interface_answers_arp(const char *name);

/* 1 when the kernel puts received TCP segments together (GRO or LRO), 0 when not, or -errno. */
int ctrl_interface_merges(const char *name);

#endif
