#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/cluster/coordinator/scene.h"

void scene_open(struct rig *rig, uint64_t seed, uint32_t nodes)
{
    rig_open(rig, seed, nodes, nodes);
    for (uint32_t i = 0; i < nodes; i++)
        rig_node_start(rig, i);
    assert_true(rig_until(rig, rig_is_complete, BASE_NS_PER_S));
    rig_run(rig, 10 * BASE_NS_PER_MS);
}

struct rig *scene_rig(void)
{
    static struct rig rig;
    return &rig;
}

static struct rig_client *waited; /* what reported() looks at */

static bool reported(struct rig *rig)
{
    (void)rig;
    return waited->reported;
}

enum base_status scene_await(struct rig *rig, struct rig_client *client, uint64_t ns)
{
    waited = client;
    assert_true(rig_until(rig, reported, ns));
    return client->report.report.error.status;
}

void scene_says(const struct rig_client *client, const char *words)
{
    if (!strstr(client->report.report.error.text, words))
        fail_msg("'%s' does not say %s", client->report.report.error.text, words);
}

void scene_all_free(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->node_count; i++)
        if (!rig->node[i].dead && !rig->node[i].stopped)
            assert_int_equal(rig->node[i].job, 0);
}

void scene_good_job(struct rig *rig)
{
    const struct cluster_submit submit = rig_join();
    struct rig_client *client = rig_submit(rig, &submit);
    if (scene_await(rig, client, 5 * BASE_NS_PER_S) != BASE_OK)
        fail_msg("%s", client->report.report.error.text);
}

const enum cluster_message_kind scene_phases[SCENE_PHASES] = {
    CLUSTER_MESSAGE_RESOLVE, CLUSTER_MESSAGE_PREPARE, CLUSTER_MESSAGE_CONNECT,
    CLUSTER_MESSAGE_START,   CLUSTER_MESSAGE_LEND,    CLUSTER_MESSAGE_STAGE,
    CLUSTER_MESSAGE_COMMIT,  CLUSTER_MESSAGE_PUBLISH, CLUSTER_MESSAGE_RELEASE};

bool scene_is_output(enum cluster_message_kind phase)
{
    return phase == CLUSTER_MESSAGE_STAGE || phase == CLUSTER_MESSAGE_COMMIT || phase == CLUSTER_MESSAGE_PUBLISH;
}

struct rig_client *scene_stand_still(struct rig *rig, enum cluster_message_kind phase)
{
    const bool out = scene_is_output(phase);
    const struct cluster_submit submit = out ? rig_shuffle_out() : rig_join();
    rig->node[2].mute[phase] = true;
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until_told(rig, 2, phase, BASE_NS_PER_S));
    rig_run(rig, BASE_NS_PER_MS);
    return client;
}

void scene_fail(struct rig *rig, uint32_t node, uint64_t job, enum base_status status)
{
    struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = job};
    base_error_set(&failed.failed.error, status, "it says %s", base_status_name(status));
    rig_node_say(rig, node, &failed);
}
