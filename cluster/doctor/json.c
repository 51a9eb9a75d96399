/* Facts and findings as one JSON object. Every key is there every time; what is not known is null. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/build.h"
#include "cluster/doctor/doctor.h"
#include "cluster/protocol/message.h"
#include "cluster/report/json_out.h"

static void put_limit(struct json_out *out, json_t *object, const char *key, uint64_t limit)
{
    json_out_put(out, object, key, limit == DOCTOR_UNLIMITED ? json_null() : json_integer((json_int_t)limit));
}

static void doctor_put_known(struct json_out *out, json_t *object, const char *key, uint64_t count)
{
    json_out_put(out, object, key, count == 0 ? json_null() : json_integer((json_int_t)count));
}

static json_t *make_sysctls(struct json_out *out, const struct doctor_facts *facts)
{
    json_t *object = json_object();
    for (int i = 0; i < DOCTOR_SYSCTL_COUNT; i++) {
        char name[DOCTOR_TEXT_BYTES];
        snprintf(name, sizeof name, "%s", doctor_sysctl_path((enum doctor_sysctl)i));
        for (char *c = name; *c; c++)
            if (*c == '/')
                *c = '.';
        json_out_put_text_or_null(out, object, name, facts->sysctl[i]);
    }
    return object;
}

static json_t *make_limits(struct json_out *out, const struct doctor_facts *facts)
{
    json_t *object = json_object();
    put_limit(out, object, "memlock_soft_bytes", facts->memlock_soft_bytes);
    put_limit(out, object, "memlock_hard_bytes", facts->memlock_hard_bytes);
    put_limit(out, object, "lockable_bytes", doctor_lockable_bytes(facts));
    put_limit(out, object, "files_soft", facts->files_soft);
    put_limit(out, object, "files_hard", facts->files_hard);
    return object;
}

static json_t *make_process(struct json_out *out, const struct doctor_facts *facts)
{
    static const char *const modes[] = {"none", "strict", "filter"};
    json_t *object = json_object();
    json_out_put_count(out, object, "user", facts->user);
    json_out_put_text_or_null(out, object, "seccomp",
                              facts->seccomp >= 0 && facts->seccomp < 3 ? modes[facts->seccomp] : "");
    json_out_put_bool(out, object, "cap_ipc_lock", facts->can_lock);
    json_out_put_bool(out, object, "cap_net_admin", facts->can_admin_network);
    json_out_put_bool(out, object, "container", facts->container);
    json_out_put(out, object, "cpu_quota", facts->cpu_quota > 0 ? json_real(facts->cpu_quota) : json_null());
    put_limit(out, object, "memory_quota_bytes", facts->memory_quota_bytes);
    return object;
}

static json_t *make_processors(struct json_out *out, const struct doctor_facts *facts)
{
    json_t *object = json_object();
    json_out_put_text_or_null(out, object, "model", facts->cpu_model);
    json_out_put_count(out, object, "online", facts->cpus_online);
    json_out_put_count(out, object, "allowed", facts->cpus_allowed);
    json_out_put_text_or_null(out, object, "governor", facts->governor);
    json_out_put_text_or_null(out, object, "clock_source", facts->clock_source);
    return object;
}

static json_t *make_memory(struct json_out *out, const struct doctor_facts *facts)
{
    json_t *object = json_object();
    json_out_put_count(out, object, "bytes", facts->memory_bytes);
    json_out_put_text_or_null(out, object, "transparent_huge_pages", facts->huge_transparent);
    doctor_put_known(out, object, "huge_page_bytes", facts->huge_page_bytes);
    return object;
}

static json_t *make_numa(struct json_out *out, const struct doctor_numa *numa)
{
    json_t *object = json_object(), *array = json_array();
    json_out_put_bool(out, object, "available", numa->available);
    for (uint32_t i = 0; i < numa->count; i++) {
        const struct doctor_numa_node *node = &numa->node[i];
        json_t *made = json_object(), *distances = json_array();
        char name[DOCTOR_WORD_BYTES];
        snprintf(name, sizeof name, "node%u", node->number);
        json_out_put_text(out, made, "name", name);
        json_out_put_text(out, made, "cpus", node->cpus);
        json_out_put_count(out, made, "cpu_count", node->cpu_count);
        json_out_put_count(out, made, "memory_bytes", node->memory_bytes);
        json_out_put_count(out, made, "free_bytes", node->free_bytes);
        json_out_put_count(out, made, "huge_pages", node->huge_pages);
        json_out_put_count(out, made, "huge_pages_free", node->huge_pages_free);
        for (uint32_t j = 0; j < numa->count; j++)
            json_out_append(out, distances, json_integer(node->distance[j]));
        json_out_put(out, made, "distances", distances);
        json_out_append(out, array, made);
    }
    json_out_put(out, object, "nodes", array);
    return object;
}

static json_t *make_errno(int os_error)
{
    const char *name = os_error ? strerrorname_np(os_error) : NULL;
    return name ? json_string(name) : json_null();
}

static json_t *make_features(struct json_out *out, const struct net_probe *probe)
{
    json_t *array = json_array();
    for (int i = 0; i < NET_PROBE_COUNT; i++) {
        const enum net_probe_id id = (enum net_probe_id)i;
        const struct net_probe_result *result = &probe->result[i];
        json_t *object = json_object();
        json_out_put_text(out, object, "name", net_probe_word(id));
        json_out_put_text(out, object, "area", net_probe_area_word(net_probe_area(id)));
        json_out_put_text(out, object, "about", net_probe_about(id));
        json_out_put_text(out, object, "state", net_probe_state_word(result->state));
        json_out_put(out, object, "error", make_errno(result->os_error));
        json_out_put_text_or_null(out, object, "why", result->why);
        json_out_put_text(out, object, "since", net_probe_since(id));
        json_out_append(out, array, object);
    }
    return array;
}

static json_t *make_rungs(struct json_out *out, const struct doctor_facts *facts)
{
    json_t *array = json_array();
    for (int kind = NET_ENGINE_AUTO + 1; kind < NET_ENGINE_KIND_COUNT; kind++) {
        const enum net_probe_id lacks = doctor_rung_lacks(facts, (enum net_engine_kind)kind);
        json_t *object = json_object();
        json_out_put_text(out, object, "name", net_rung_word((enum net_engine_kind)kind));
        json_out_put_bool(out, object, "complete", lacks == NET_PROBE_COUNT);
        json_out_put(out, object, "lacks",
                     lacks == NET_PROBE_COUNT ? json_null() : json_out_text(net_probe_word(lacks)));
        json_out_append(out, array, object);
    }
    return array;
}

static json_t *doctor_make_socket(struct json_out *out, const struct net_probe_socket *socket)
{
    json_t *object = json_object();
    json_out_put_text_or_null(out, object, "congestion_default", socket->congestion_default);
    json_out_put_text_or_null(out, object, "congestion", socket->congestion);
    doctor_put_known(out, object, "send_buffer_bytes", socket->send_buffer_bytes);
    doctor_put_known(out, object, "recv_buffer_bytes", socket->recv_buffer_bytes);
    json_out_put_bool(out, object, "nodelay", socket->nodelay);
    doctor_put_known(out, object, "notsent_lowat_bytes", socket->notsent_lowat_bytes);
    return object;
}

static json_t *make_path(struct json_out *out, const struct doctor_path *path)
{
    json_t *object = json_object(), *steps = json_array();
    json_out_put_text(out, object, "state", doctor_zero_copy_word(path->state));
    json_out_put_text_or_null(out, object, "why", path->why);
    for (uint32_t i = 0; i < path->step_count; i++)
        json_out_append(out, steps, json_out_text(path->step[i]));
    json_out_put(out, object, "steps", steps);
    return object;
}

static json_t *make_offloads(struct json_out *out, const struct doctor_card *card)
{
    json_t *object = json_object();
#define X(field, name) json_out_put_text(out, object, name, doctor_switch_word(card->field));
    DOCTOR_OFFLOAD_LIST(X)
#undef X
    json_out_put_text(out, object, "tcp-data-split", doctor_switch_word(card->data_split));
    json_out_put(out, object, "hds-thresh",
                 card->split_threshold_known ? json_integer(card->split_threshold_bytes) : json_null());
    return object;
}

static json_t *make_card(struct json_out *out, const struct doctor_facts *facts, const struct doctor_card *card)
{
    json_t *object = json_object();
    struct doctor_path path;
    json_out_put_text(out, object, "name", card->name);
    json_out_put_count(out, object, "index", card->index);
    json_out_put_bool(out, object, "up", card->up);
    json_out_put_bool(out, object, "physical", card->physical);
    json_out_put_text_or_null(out, object, "kind", card->loopback ? "loopback" : card->kind);
    json_out_put_text_or_null(out, object, "driver", card->driver);
    json_out_put_text_or_null(out, object, "qdisc", card->qdisc);
    json_out_put_count(out, object, "mtu", card->mtu);
    doctor_put_known(out, object, "speed_mbit", card->speed_mbit);
    json_out_put(out, object, "numa_node", card->numa_node >= 0 ? json_integer(card->numa_node) : json_null());
    doctor_put_known(out, object, "queues", card->queues);
    doctor_put_known(out, object, "queues_max", card->queues_max);
    doctor_put_known(out, object, "spread_queues", card->spread_queues);
    json_out_put_bool(out, object, "xdp", card->xdp);
    json_out_put(out, object, "offloads", make_offloads(out, card));
    doctor_judge_send(facts, card, &path);
    json_out_put(out, object, "zero_copy_send", make_path(out, &path));
    doctor_judge_receive(facts, card, &path);
    json_out_put(out, object, "zero_copy_receive", make_path(out, &path));
    return object;
}

static json_t *make_findings(struct json_out *out, const struct doctor_findings *findings)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct doctor_finding *finding = &findings->finding[i];
        json_t *object = json_object();
        json_out_put_text(out, object, "severity", doctor_severity_word(finding->severity));
        json_out_put_text(out, object, "subject", finding->subject);
        json_out_put_text(out, object, "text", finding->text);
        json_out_put_text_or_null(out, object, "command", finding->command);
        json_out_append(out, array, object);
    }
    return array;
}

char *doctor_json(const struct doctor_facts *facts, const struct doctor_findings *findings)
{
    struct json_out out = {0};
    json_t *object = json_object(), *cards = json_array();
    json_out_put_text(&out, object, "version", base_build_id());
    json_out_put_bool(&out, object, "well", doctor_is_well(findings));
    json_out_put_text(&out, object, "host", facts->host);
    json_out_put_text(&out, object, "kernel", facts->release);
    json_out_put_text(&out, object, "machine", facts->machine);
    json_out_put_text(&out, object, "engine", doctor_engine(facts));
    json_out_put(&out, object, "sysctl", make_sysctls(&out, facts));
    json_out_put(&out, object, "limits", make_limits(&out, facts));
    json_out_put(&out, object, "process", make_process(&out, facts));
    json_out_put(&out, object, "cpu", make_processors(&out, facts));
    json_out_put(&out, object, "memory", make_memory(&out, facts));
    json_out_put(&out, object, "numa", make_numa(&out, &facts->numa));
    json_out_put(&out, object, "socket", doctor_make_socket(&out, &facts->socket));
    json_out_put(&out, object, "features", make_features(&out, &facts->probe));
    json_out_put(&out, object, "engines", make_rungs(&out, facts));
    for (uint32_t i = 0; i < facts->card_count; i++)
        json_out_append(&out, cards, make_card(&out, facts, &facts->card[i]));
    json_out_put(&out, object, "interfaces", cards);
    json_out_put_count(&out, object, "interfaces_left_out", facts->cards_left_out);
    json_out_put(&out, object, "findings", make_findings(&out, findings));
    return json_out_finish(&out, object);
}
