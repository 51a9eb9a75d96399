/* Key files: made once, read only when they are what they should be, and nobody else's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/proof/key.h"

static char folder[] = "/tmp/millrace-key-XXXXXX";
static char path[64];

static const char *file(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text, size_t bytes, mode_t mode)
{
    const int fd = open(file(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), bytes);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static void refuse(const char *name, enum base_status status, const char *words)
{
    struct net_key *key;
    struct base_error error = {0};
    assert_int_equal(net_key_read(file(name), &key, &error), status);
    if (!strstr(error.text, words) || !strstr(error.text, path))
        fail_msg("\"%s\" does not say \"%s\" and %s", error.text, words, path);
}

static const char digits[] = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";

static void a_key_is_made_once(void **state)
{
    (void)state;
    struct base_error error;
    struct stat about;
    char first[80] = "", again[80] = "";
    assert_int_equal(net_key_create(file("made"), &error), BASE_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(about.st_size, 65);
    FILE *text = fopen(path, "r");
    assert_non_null(fgets(first, sizeof first, text));
    fclose(text);
    assert_int_equal(strspn(first, "0123456789abcdef"), 64);
    assert_string_equal(first + 64, "\n");
    struct net_key *key;
    assert_int_equal(net_key_read(path, &key, &error), BASE_OK);
    net_key_close(key);
    /* Never over another; and another is another. */
    assert_int_equal(net_key_create(path, &error), BASE_EXISTS);
    assert_non_null(strstr(error.text, path));
    text = fopen(path, "r");
    assert_non_null(fgets(again, sizeof again, text));
    fclose(text);
    assert_string_equal(first, again);
    assert_int_equal(net_key_create(file("other"), &error), BASE_OK);
    text = fopen(path, "r");
    assert_non_null(fgets(again, sizeof again, text));
    fclose(text);
    assert_string_not_equal(first, again);
}

static void no_key_where_there_is_no_folder(void **state)
{
    (void)state;
    struct base_error error;
    assert_int_equal(net_key_create(file("none/key"), &error), BASE_NOT_FOUND);
    assert_non_null(strstr(error.text, path));
}

static void a_key_is_what_its_file_says(void **state)
{
    (void)state;
    struct net_key *key, *same;
    struct base_error error;
    uint8_t bytes[NET_KEY_BYTES], a[NET_KEY_MAC_BYTES], b[NET_KEY_MAC_BYTES];
    for (int i = 0; i < NET_KEY_BYTES; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(net_key_make(bytes, &same, &error), BASE_OK);
    put("plain", digits, 64, 0400); /* no line end, upper case */
    assert_int_equal(net_key_read(path, &key, &error), BASE_OK);
    net_key_mac(key, "text", 4, a);
    net_key_mac(same, "text", 4, b);
    assert_true(net_key_mac_equal(a, b));
    net_key_mac(same, "tex", 3, b);
    assert_false(net_key_mac_equal(a, b));
    net_key_close(key);
    net_key_close(same);
    bytes[31] ^= 1;
    assert_int_equal(net_key_make(bytes, &same, &error), BASE_OK);
    net_key_mac(same, "text", 4, b);
    assert_false(net_key_mac_equal(a, b));
    net_key_close(same);
    net_key_close(NULL);
}

static void what_is_no_key_is_refused(void **state)
{
    (void)state;
    char text[200];
    refuse("absent", BASE_NOT_FOUND, "millrace key");
    put("empty", "", 0, 0600);
    refuse("empty", BASE_INVALID, "64 hexadecimal digits");
    for (size_t bytes = 1; bytes < 64; bytes++) {
        put("short", digits, bytes, 0600);
        refuse("short", BASE_INVALID, "64 hexadecimal digits");
    }
    for (size_t at = 0; at < 64; at++) {
        memcpy(text, digits, sizeof digits);
        text[at] = at % 2 ? 'g' : '\0';
        put("digit", text, 64, 0600);
        refuse("digit", BASE_INVALID, "64 hexadecimal digits");
    }
    snprintf(text, sizeof text, "%s\n\n", digits);
    put("long", text, 66, 0600);
    refuse("long", BASE_INVALID, "64 hexadecimal digits");
    snprintf(text, sizeof text, "%s ", digits);
    put("blank", text, 65, 0600);
    refuse("blank", BASE_INVALID, "64 hexadecimal digits");
    snprintf(text, sizeof text, "%s%s", digits, digits);
    put("twice", text, 128, 0600);
    refuse("twice", BASE_INVALID, "64 hexadecimal digits");
}

static void a_file_of_others_is_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0644, 0640, 0604, 0620, 0602, 0610, 0601, 0660};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char words[32];
        put("open", digits, 64, modes[i]);
        snprintf(words, sizeof words, "mode is %04o", modes[i]);
        refuse("open", BASE_DENIED, words);
        refuse("open", BASE_DENIED, "chmod 600");
    }
}

/* Root can read every file, but who owns it can change it. */
static void a_file_of_another_owner_is_refused(void **state)
{
    (void)state;
    put("foreign", digits, 64, 0600);
    if (chown(path, 65534, 65534) < 0) {
        print_message("this user cannot give a file to another\n");
        skip();
    }
    refuse("foreign", BASE_DENIED, "belongs to user 65534");
    refuse("foreign", BASE_DENIED, "of your own");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(mkdir(file("folder"), 0700), 0);
    refuse("folder", BASE_INVALID, "is not a file");
    assert_int_equal(mkfifo(file("pipe"), 0600), 0);
    refuse("pipe", BASE_INVALID, "is not a file"); /* at once, though nobody writes into it */
}

/* No error text may quote what it found in a file that was meant to be secret. */
static void the_content_is_never_told(void **state)
{
    (void)state;
    struct net_key *key;
    struct base_error error = {0};
    put("secret", "not-hex-but-secret-not-hex-but-secret-not-hex-but-secret-not-hex", 64, 0600);
    assert_int_equal(net_key_read(path, &key, &error), BASE_INVALID);
    assert_null(strstr(error.text, "not-hex"));
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"made",  "other", "plain", "empty", "short",  "digit",  "long",
                                        "blank", "twice", "open",  "pipe",  "secret", "foreign"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(file(names[i]));
    rmdir(file("folder"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_made_once),          cmocka_unit_test(no_key_where_there_is_no_folder),
        cmocka_unit_test(a_key_is_what_its_file_says), cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test(a_file_of_others_is_refused), cmocka_unit_test(a_file_of_another_owner_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),  cmocka_unit_test(the_content_is_never_told),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
