#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "shuffle/frames/frame.h"

static const struct shuffle_frame_header data = {.magic = SHUFFLE_FRAME_MAGIC,
                                                 .kind = SHUFFLE_FRAME_DATA,
                                                 .exchange = 1,
                                                 .source = 3,
                                                 .destination = 4,
                                                 .sequence = 9,
                                                 .bytes = 160,
                                                 .rows = 10};
static const struct shuffle_frame_header end = {
    .magic = SHUFFLE_FRAME_MAGIC, .kind = SHUFFLE_FRAME_END, .bytes = sizeof(struct shuffle_lane_totals)};

static void the_wire_has_the_documented_bytes(void **state)
{
    (void)state;
    static const uint8_t wire[] = {'M', 'R', 'F', '1', 1,   1, 0, 0, 3,  0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0,
                                   0,   0,   0,   0,   160, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(&data, wire, sizeof wire);
}

static void expect(struct shuffle_frame_header header, enum base_status status)
{
    struct base_error error = {0};
    assert_int_equal(shuffle_frame_check(&header, &error), status);
    assert_int_equal(error.status, status);
    assert_int_equal(error.text[0] != 0, status != BASE_OK);
    assert_int_equal(shuffle_frame_check(&header, NULL), status);
}

static void headers_are_checked(void **state)
{
    (void)state;
#define CHANGED(from, change)                                                                                          \
    ({                                                                                                                 \
        struct shuffle_frame_header h = from;                                                                          \
        h.change;                                                                                                      \
        h;                                                                                                             \
    })
    expect(data, BASE_OK);
    expect(end, BASE_OK);
    expect(CHANGED(data, flags = SHUFFLE_FRAME_CHECKED), BASE_OK);
    expect(CHANGED(data, bytes = SHUFFLE_ROW_BYTES_MAX), BASE_OK);
    expect(CHANGED(data, rows = 160), BASE_OK);
    expect(CHANGED(data, exchange = 3), BASE_OK);
    expect(CHANGED(data, exchange = 4), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, magic ^= 1), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, kind = 0), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, kind = 3), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, flags = 2), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, rows = 0), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, rows = 161), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, bytes = 0), BASE_FRAME_CORRUPT);
    expect(CHANGED(data, bytes = SHUFFLE_ROW_BYTES_MAX + 1), BASE_FRAME_CORRUPT);
    expect(CHANGED(end, rows = 1), BASE_FRAME_CORRUPT);
    expect(CHANGED(end, bytes = 25), BASE_FRAME_CORRUPT);
    expect(CHANGED(end, flags = SHUFFLE_FRAME_CHECKED | SHUFFLE_FRAME_NOTES), BASE_OK);
    expect(CHANGED(end, flags = 8), BASE_FRAME_CORRUPT);
}

static void frames_follow_the_expected_bytes(void **state)
{
    (void)state;
    assert_int_equal(shuffle_frame_bytes_for(0, 1, 2), SHUFFLE_FRAME_BYTES_MIN);
    assert_int_equal(shuffle_frame_bytes_for(8 * 8192 - 1, 1, 2), 4096);
    assert_int_equal(shuffle_frame_bytes_for(UINT64_C(8) * 8192, 1, 2), 8192);
    assert_int_equal(shuffle_frame_bytes_for(UINT64_C(8) * 100000, 1, 2), 65536);
    assert_int_equal(shuffle_frame_bytes_for(UINT64_C(8) << 20, 1, 2), 1 << 20);
    assert_int_equal(shuffle_frame_bytes_for(UINT64_MAX, 1, 2), SHUFFLE_FRAME_BYTES_MAX);
    /* All of a worker's frames in 2 MiB, but none below 64 KiB for that reason. */
    assert_int_equal(shuffle_frame_bytes_for(UINT64_MAX, 5, 2), 128 << 10);
    assert_int_equal(shuffle_frame_bytes_for(UINT64_MAX, 95, 2), 64 << 10);
    assert_int_equal(shuffle_frame_bytes_for(UINT64_C(8) * 4096, 95, 2), 4096);
    assert_int_equal(shuffle_frame_bytes_for(UINT64_MAX, UINT32_MAX, UINT32_MAX), 64 << 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wire_has_the_documented_bytes),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(frames_follow_the_expected_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
