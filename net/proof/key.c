/* The one file that includes libsodium. */
#include "net/proof/key.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"

enum { KEY_DIGITS = 2 * NET_KEY_BYTES, KEY_FILE_BYTES_MAX = KEY_DIGITS + 1 };

_Static_assert(NET_KEY_BYTES >= crypto_generichash_KEYBYTES_MIN && NET_KEY_BYTES <= crypto_generichash_KEYBYTES_MAX,
               "the key fits the hash");
_Static_assert(NET_KEY_MAC_BYTES <= crypto_generichash_BYTES_MAX, "the hash is as long as the code");

struct net_key {
    uint8_t bytes[NET_KEY_BYTES];
};

static enum base_status sodium_ready(struct base_error *error)
{
    if (sodium_init() >= 0) /* any number of times, from any thread */
        return BASE_OK;
    return base_error_set(error, BASE_INTERNAL, "libsodium does not start: has this system no source of randomness?");
}

enum base_status net_key_make(const uint8_t bytes[NET_KEY_BYTES], struct net_key **key, struct base_error *error)
{
    const enum base_status status = sodium_ready(error);
    if (status != BASE_OK)
        return status;
    struct net_key *made = sodium_malloc(sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the cluster's key");
    memcpy(made->bytes, bytes, NET_KEY_BYTES);
    sodium_mprotect_readonly(made);
    *key = made;
    return BASE_OK;
}

void net_key_close(struct net_key *key)
{
    sodium_free(key); /* makes it writable, wipes it */
}

/* Everybody else who may read or write the file, and its owner, may know or choose the key. */
static enum base_status check_file(int fd, const char *path, struct base_error *error)
{
    struct stat about;
    if (fstat(fd, &about) < 0)
        return base_error_set_errno(error, errno, "cannot look at the key %s", path);
    if (!S_ISREG(about.st_mode))
        return base_error_set(error, BASE_INVALID, "the key %s is not a file: `millrace key FILE' makes one", path);
    if (about.st_uid != geteuid())
        return base_error_set(
            error, BASE_DENIED,
            "the key %s belongs to user %u, who can change it, and this is user %u: copy it to a file "
            "of your own",
            path, (unsigned)about.st_uid, (unsigned)geteuid());
    if (about.st_mode & (S_IRWXG | S_IRWXO))
        return base_error_set(error, BASE_DENIED,
                              "the key %s is not its owner's alone (its mode is %04o): `chmod 600 %s', and if "
                              "others may have read it, make a new one with `millrace key'",
                              path, (unsigned)about.st_mode & 07777, path);
    return BASE_OK;
}

/* Bytes read, up to KEY_FILE_BYTES_MAX + 1: one more than a key has shows that it is none. */
static enum base_status read_text(int fd, const char *path, char *text, size_t *count, struct base_error *error)
{
    *count = 0;
    while (*count <= KEY_FILE_BYTES_MAX) {
        const ssize_t got = read(fd, text + *count, KEY_FILE_BYTES_MAX + 1 - *count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return base_error_set_errno(error, errno, "cannot read the key %s", path);
        if (got == 0)
            break;
        *count += (size_t)got;
    }
    return BASE_OK;
}

static enum base_status key_parse(const char *path, const char *text, size_t count, struct net_key **key,
                                  struct base_error *error)
{
    uint8_t bytes[NET_KEY_BYTES];
    size_t parsed = 0;
    const bool right_size = count == KEY_DIGITS || (count == KEY_DIGITS + 1 && text[KEY_DIGITS] == '\n');
    enum base_status status;
    if (right_size && sodium_hex2bin(bytes, sizeof bytes, text, KEY_DIGITS, NULL, &parsed, NULL) == 0 &&
        parsed == sizeof bytes)
        status = net_key_make(bytes, key, error);
    else
        status = base_error_set(error, BASE_INVALID,
                                "the file %s is no key: a key is %d hexadecimal digits on one line, and `millrace key "
                                "FILE' makes one",
                                path, KEY_DIGITS);
    sodium_memzero(bytes, sizeof bytes);
    return status;
}

enum base_status net_key_read(const char *path, struct net_key **key, struct base_error *error)
{
    /* Neither a pipe nor a device that somebody put there shall hold us up. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return base_error_set(error, BASE_NOT_FOUND,
                              "there is no key %s: copy the cluster's key there, or make one with `millrace key %s'",
                              path, path);
    if (fd < 0)
        return base_error_set_errno(error, errno, "cannot open the key %s", path);
    char text[KEY_FILE_BYTES_MAX + 1];
    size_t count;
    enum base_status status = check_file(fd, path, error);
    if (status == BASE_OK)
        status = read_text(fd, path, text, &count, error);
    if (status == BASE_OK)
        status = key_parse(path, text, count, key, error);
    close(fd);
    sodium_memzero(text, sizeof text);
    return status;
}

/* A new key as text with a line end. */
static enum base_status write_text(int fd, const char *path, struct base_error *error)
{
    uint8_t bytes[NET_KEY_BYTES];
    char text[KEY_DIGITS + 1];
    enum base_status status = BASE_OK;
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(text, sizeof text, bytes, sizeof bytes);
    sodium_memzero(bytes, sizeof bytes);
    text[KEY_DIGITS] = '\n';
    for (size_t done = 0; done < sizeof text && status == BASE_OK;) {
        const ssize_t wrote = write(fd, text + done, sizeof text - done);
        if (wrote >= 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            status = base_error_set_errno(error, errno, "cannot write the key %s", path);
    }
    sodium_memzero(text, sizeof text);
    if (status == BASE_OK && fsync(fd) < 0)
        status = base_error_set_errno(error, errno, "cannot write the key %s", path);
    return status;
}

enum base_status net_key_create(const char *path, struct base_error *error)
{
    enum base_status status = sodium_ready(error);
    if (status != BASE_OK)
        return status;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, S_IRUSR | S_IWUSR);
    if (fd < 0 && errno == EEXIST)
        return base_error_set(
            error, BASE_EXISTS,
            "%s exists already, and no key is ever overwritten: name another file, or remove this one "
            "if no daemon uses it any more",
            path);
    if (fd < 0)
        return base_error_set_errno(error, errno, "cannot make the key %s", path);
    status = write_text(fd, path, error);
    if (close(fd) < 0 && status == BASE_OK)
        status = base_error_set_errno(error, errno, "cannot write the key %s", path);
    if (status != BASE_OK)
        unlink(path);
    return status;
}

void net_key_mac(const struct net_key *key, const void *bytes, size_t count, uint8_t mac[NET_KEY_MAC_BYTES])
{
    BASE_ASSERT(key); /* an unkeyed hash proves nothing, and the library would make one */
    crypto_generichash(mac, NET_KEY_MAC_BYTES, bytes, count, key->bytes, NET_KEY_BYTES);
}

bool net_key_mac_equal(const uint8_t a[NET_KEY_MAC_BYTES], const uint8_t b[NET_KEY_MAC_BYTES])
{
    return sodium_memcmp(a, b, NET_KEY_MAC_BYTES) == 0;
}

void net_key_nonce(uint8_t nonce[NET_KEY_NONCE_BYTES])
{
    randombytes_buf(nonce, NET_KEY_NONCE_BYTES);
}
