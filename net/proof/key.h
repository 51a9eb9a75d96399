/* The cluster's key: 32 random bytes that every daemon and client of a cluster reads from a file, and by which peers
 * recognise each other (net/proof/proof.h). What it is good for, and what not: docs/security.md.
 *
 * The file holds 64 hexadecimal digits and perhaps a line end, nothing else. In memory the key lives in pages of its
 * own, locked where the kernel allows it, left out of core dumps, read-only, and wiped when it is closed. It is never
 * logged and never part of a message. */
#ifndef MILLRACE_NET_PROOF_KEY_H
#define MILLRACE_NET_PROOF_KEY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct net_key;

enum { NET_KEY_BYTES = 32, NET_KEY_MAC_BYTES = 32, NET_KEY_NONCE_BYTES = 32 };

/* Reads a key file. BASE_DENIED when it is not this user's, or when others may read or change it. Errors name the file
 * and what to do. The caller closes the key. */
enum base_status net_key_read(const char *path, struct net_key **key, struct base_error *error);
/* Makes a key of these bytes, which are copied. */
enum base_status net_key_make(const uint8_t bytes[NET_KEY_BYTES], struct net_key **key, struct base_error *error);
/* Writes a new random key to a file that does not exist yet, for its owner alone; on error there is no file. */
enum base_status net_key_create(const char *path, struct base_error *error);
/* Wipes and frees; NULL is fine. */
void net_key_close(struct net_key *key);

/* The authentication code of some bytes under the key. Any thread. */
void net_key_mac(const struct net_key *key, const void *bytes, size_t count, uint8_t mac[NET_KEY_MAC_BYTES]);
/* In constant time. */
bool net_key_mac_equal(const uint8_t a[NET_KEY_MAC_BYTES], const uint8_t b[NET_KEY_MAC_BYTES]);
/* Unpredictable bytes that no other call gives; once a key was read or made. */
void net_key_nonce(uint8_t nonce[NET_KEY_NONCE_BYTES]);

#endif
