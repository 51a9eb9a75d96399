/* The codec's part for plans. A plan that passes can be run: its columns, keys, items, node map and
 * settings refer only to what is there. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

enum {
    PLAN_FRAME_BYTES_MIN = 4 << 10,
    PLAN_FRAME_BYTES_MAX = 1 << 20,
    PLAN_FRAMES_PER_LANE_MAX = 1024,
    PLAN_CHUNK_BYTES_MAX = 64 << 20,
    PLAN_CHUNKS_MAX = 1 << 15
};

Wire__Settings *wire_put_settings(struct wire_scratch *scratch, const struct shuffle_settings *settings)
{
    Wire__Settings *wire = wire_take(scratch, 1, sizeof *wire);
    if (!wire)
        return NULL;
    wire__settings__init(wire);
    char *engine = wire_take(scratch, NET_CHOICE_TEXT_BYTES, 1);
    char *socket = wire_take(scratch, NET_SOCKET_TEXT_BYTES, 1);
    if (!engine || !socket)
        return NULL;
    net_engine_choice_format(&settings->engine, engine);
    wire->engine = wire_bytes(engine);
    net_socket_settings_format(&settings->socket, socket);
    wire->socket = wire_bytes(socket);
    wire->verify = settings->verify;
    wire->frame_bytes = settings->frame_bytes;
    wire->frames_per_lane = settings->frames_per_lane;
    wire->recv_chunk_bytes = settings->recv_chunk_bytes;
    wire->recv_chunk_count = settings->recv_chunk_count;
    wire->morsel_bytes = settings->morsel_bytes;
    return wire;
}

static void get_engine(struct wire_reader *reader, struct ProtobufCBinaryData data, struct net_engine_choice *choice)
{
    struct base_error error = {0};
    char *text = wire_text(reader, "engine", data, NET_CHOICE_TEXT_BYTES);
    if (text && *text != '\0' && net_engine_choice_parse(text, choice, &error) != BASE_OK)
        wire_refuse(reader, BASE_PROTOCOL, "%s", error.text);
    free(text);
}

static void get_socket(struct wire_reader *reader, struct ProtobufCBinaryData data,
                       struct net_socket_settings *settings)
{
    struct base_error error = {0};
    char *text = wire_text(reader, "socket settings", data, NET_SOCKET_TEXT_BYTES);
    if (text && net_socket_settings_parse(text, settings, &error) != BASE_OK)
        wire_refuse(reader, BASE_PROTOCOL, "%s", error.text);
    free(text);
}

void wire_get_settings(struct wire_reader *reader, const Wire__Settings *wire, struct shuffle_settings *settings)
{
    if (!wire_there(reader, "settings", wire))
        return;
    get_engine(reader, wire->engine, &settings->engine);
    settings->verify = wire->verify;
    settings->frame_bytes = wire_below(reader, "frame bytes", wire->frame_bytes, PLAN_FRAME_BYTES_MAX + 1);
    settings->frames_per_lane =
        wire_below(reader, "frames per lane", wire->frames_per_lane, PLAN_FRAMES_PER_LANE_MAX + 1);
    settings->recv_chunk_bytes =
        wire_below(reader, "receive chunk bytes", wire->recv_chunk_bytes, PLAN_CHUNK_BYTES_MAX + 1);
    settings->recv_chunk_count = wire_below(reader, "receive chunks", wire->recv_chunk_count, PLAN_CHUNKS_MAX + 1);
    get_socket(reader, wire->socket, &settings->socket);
    settings->morsel_bytes = wire->morsel_bytes;
    if (wire->frame_bytes && wire->frame_bytes < PLAN_FRAME_BYTES_MIN)
        wire_refuse(reader, BASE_PROTOCOL, "frames of %u bytes, at least %d are needed", wire->frame_bytes,
                    PLAN_FRAME_BYTES_MIN);
}

Wire__Address **wire_put_addresses(struct wire_scratch *scratch, const struct net_address *address, uint32_t count)
{
    Wire__Address **list = wire_take(scratch, count, sizeof(Wire__Address *));
    Wire__Address *item = wire_take(scratch, count, sizeof *item);
    if (!list || !item)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        wire__address__init(&item[i]);
        list[i] = &item[i];
        if (address[i].any.sa_family == AF_INET6) {
            item[i].host = (ProtobufCBinaryData){16, (uint8_t *)(uintptr_t)&address[i].v6.sin6_addr};
            item[i].port = ntohs(address[i].v6.sin6_port);
            item[i].scope = address[i].v6.sin6_scope_id;
        } else {
            item[i].host = (ProtobufCBinaryData){4, (uint8_t *)(uintptr_t)&address[i].v4.sin_addr};
            item[i].port = ntohs(address[i].v4.sin_port);
        }
    }
    return list;
}

void wire_get_addresses(struct wire_reader *reader, Wire__Address **wire, size_t count, struct net_address *address)
{
    for (size_t i = 0; i < count && !reader->failed; i++) {
        const uint16_t port = htons((uint16_t)wire_below(reader, "port", wire[i]->port, 65536));
        memset(&address[i], 0, sizeof address[i]);
        if (wire[i]->host.len == 16) {
            address[i].v6.sin6_family = AF_INET6;
            address[i].v6.sin6_port = port;
            address[i].v6.sin6_scope_id = wire[i]->scope;
            memcpy(&address[i].v6.sin6_addr, wire[i]->host.data, 16);
            address[i].bytes = sizeof address[i].v6;
        } else if (wire[i]->host.len == 4) {
            address[i].v4.sin_family = AF_INET;
            address[i].v4.sin_port = port;
            memcpy(&address[i].v4.sin_addr, wire[i]->host.data, 4);
            address[i].bytes = sizeof address[i].v4;
        } else {
            wire_refuse(reader, BASE_PROTOCOL, "an address of %zu bytes", wire[i]->host.len);
        }
    }
}

static void put_side(struct wire_scratch *scratch, const struct join_side *side, Wire__Side *wire)
{
    wire__side__init(wire);
    wire->relation = wire_put_relation(scratch, &side->relation);
    wire->n_project = side->project_count;
    wire->project = side->project;
    wire->key_nullable = side->key_nullable;
    uint32_t *numbers = wire_take(scratch, 2 * (size_t)side->key.count, sizeof *numbers);
    if (!numbers)
        return;
    wire->n_key_column = wire->n_key_class = side->key.count;
    wire->key_column = numbers;
    wire->key_class = numbers + side->key.count;
    for (uint32_t i = 0; i < side->key.count; i++) {
        wire->key_column[i] = side->key.part[i].column;
        wire->key_class[i] = side->key.part[i].class;
    }
}

static void get_projection(struct wire_reader *reader, const Wire__Side *wire, struct join_side *side)
{
    side->project = wire_array(reader, "projected columns", wire->n_project, SHUFFLE_COLUMNS_MAX, sizeof(uint32_t));
    if (!side->project) {
        wire_refuse(reader, BASE_PROTOCOL, "a side without columns");
        return;
    }
    side->project_count = (uint32_t)wire->n_project;
    for (uint32_t i = 0; i < side->project_count && !reader->failed; i++) {
        side->project[i] = wire_below(reader, "projected column", wire->project[i], side->relation.schema.count);
        struct base_error error;
        if (!reader->failed &&
            shuffle_schema_append(&side->schema, &side->relation.schema.field[side->project[i]], &error) != BASE_OK)
            wire_refuse(reader, error.status == BASE_NO_MEMORY ? BASE_NO_MEMORY : BASE_PROTOCOL, "%s", error.text);
    }
}

static void get_side(struct wire_reader *reader, const Wire__Side *wire, struct join_side *side)
{
    wire_get_relation(reader, wire->relation, &side->relation);
    if (!reader->failed)
        get_projection(reader, wire, side);
    if (wire->n_key_column == 0 || wire->n_key_column > SHUFFLE_KEY_PARTS_MAX ||
        wire->n_key_column != wire->n_key_class)
        wire_refuse(reader, BASE_PROTOCOL, "a key of %zu columns", wire->n_key_column);
    if (reader->failed)
        return;
    side->key.count = (uint32_t)wire->n_key_column;
    side->key_nullable = wire->key_nullable;
    for (uint32_t i = 0; i < side->key.count; i++) {
        side->key.part[i].column = wire_below(reader, "key column", wire->key_column[i], side->project_count);
        side->key.part[i].class =
            (enum shuffle_key_class)wire_below(reader, "key class", wire->key_class[i], SHUFFLE_KEY_BYTES + 1);
    }
}

/* What the type of join and its rules for NULLs allow. A plan of another kind of job has none. */
static void get_type(struct wire_reader *reader, const Wire__Plan *wire, struct join_plan *plan)
{
    plan->type = (enum join_type)wire_below(reader, "type of join", wire->join_type, JOIN_TYPE_COUNT);
    plan->null_equal = wire->null_equal;
    plan->null_aware = wire->null_aware;
    for (uint32_t side = 0; side < plan->sides; side++)
        plan->side[side].key.null_equal = plan->null_equal;
    if (reader->failed)
        return;
    if (plan->kind != JOIN_JOB_JOIN && (plan->type != JOIN_TYPE_INNER || plan->null_equal || plan->null_aware))
        wire_refuse(reader, BASE_PROTOCOL, "a job that is no join has a type of join");
    if (plan->null_aware &&
        (plan->type != JOIN_TYPE_ANTI || plan->null_equal || plan->build != 1 || plan->side[0].key.count != 1))
        wire_refuse(reader, BASE_PROTOCOL, "a plan has NOT IN's rule that cannot have it");
}

/* Of a semi or anti join the left side alone has columns in the result; the columns of a padded side may be NULL. */
static void check_item(struct wire_reader *reader, const struct join_plan *plan, uint32_t i)
{
    const struct shuffle_output_item *item = &plan->item[i];
    const struct shuffle_field *from = &plan->side[item->side].schema.field[item->column], *to = &plan->result.field[i];
    const bool nullable = from->nullable || (plan->sides == 2 && join_type_pads(plan->type, item->side));
    if (from->type != to->type || from->width != to->width || nullable != to->nullable)
        wire_refuse(reader, BASE_PROTOCOL, "result column \"%s\" has another type than its source", to->name);
    if (item->side == 1 && !join_type_pairs(plan->type))
        wire_refuse(reader, BASE_PROTOCOL, "a join of type %s has a right column in its result",
                    join_type_word(plan->type));
}

/* The classes of a key are what its columns' types make them, and a key is nullable when a column is. */
static void check_keys(struct wire_reader *reader, const struct join_plan *plan)
{
    const struct join_side *left = &plan->side[0], *right = &plan->side[plan->sides - 1];
    if (left->key.count != right->key.count)
        wire_refuse(reader, BASE_PROTOCOL, "keys of %u and %u columns", left->key.count, right->key.count);
    for (uint32_t i = 0; i < left->key.count && !reader->failed; i++) {
        enum shuffle_key_class class;
        struct base_error error;
        if (shuffle_key_pair_class(&left->schema.field[left->key.part[i].column],
                                   &right->schema.field[right->key.part[i].column], &class, &error) != BASE_OK ||
            class != left->key.part[i].class || class != right->key.part[i].class)
            wire_refuse(reader, BASE_PROTOCOL, "part %u of the key has a class that its columns do not have", i);
    }
    for (uint32_t side = 0; side < plan->sides && !reader->failed; side++) {
        bool nullable = false;
        for (uint32_t i = 0; i < plan->side[side].key.count; i++)
            nullable |= plan->side[side].schema.field[plan->side[side].key.part[i].column].nullable;
        if (nullable && !plan->side[side].key_nullable)
            wire_refuse(reader, BASE_PROTOCOL, "a key with a nullable column is marked as having none");
    }
}

static void put_items(struct wire_scratch *scratch, const struct join_plan *plan, Wire__Plan *wire)
{
    uint32_t *numbers = wire_take(scratch, 2 * (size_t)plan->item_count, sizeof *numbers);
    if (!numbers)
        return;
    wire->n_item_side = wire->n_item_column = plan->item_count;
    wire->item_side = numbers;
    wire->item_column = numbers + plan->item_count;
    for (uint32_t i = 0; i < plan->item_count; i++) {
        wire->item_side[i] = plan->item[i].side;
        wire->item_column[i] = plan->item[i].column;
    }
}

static void get_items(struct wire_reader *reader, const Wire__Plan *wire, struct join_plan *plan)
{
    wire_get_schema(reader, wire->result, wire->n_result, &plan->result);
    if (wire->n_item_side != wire->n_item_column || wire->n_item_side != wire->n_result)
        wire_refuse(reader, BASE_PROTOCOL, "a result of %zu columns and %zu items", wire->n_result, wire->n_item_side);
    plan->item = wire_array(reader, "result columns", wire->n_item_side, SHUFFLE_COLUMNS_MAX, sizeof *plan->item);
    if (!plan->item)
        return;
    plan->item_count = (uint32_t)wire->n_item_side;
    for (uint32_t i = 0; i < plan->item_count && !reader->failed; i++) {
        struct shuffle_output_item *item = &plan->item[i];
        item->side = wire_below(reader, "side of a result column", wire->item_side[i], plan->sides);
        item->column = wire_below(reader, "result column", wire->item_column[i], plan->side[item->side].project_count);
        if (!reader->failed)
            check_item(reader, plan, i);
    }
}

static void put_nodes(struct wire_scratch *scratch, const struct shuffle_job *job, Wire__Plan *wire)
{
    Wire__PlanNode **list = wire_take(scratch, job->node_count, sizeof(Wire__PlanNode *));
    Wire__PlanNode *item = wire_take(scratch, job->node_count, sizeof *item);
    if (!list || !item)
        return;
    for (uint32_t i = 0; i < job->node_count; i++) {
        wire__plan_node__init(&item[i]);
        item[i].name = wire_bytes(job->node[i].name);
        item[i].first = job->node[i].first;
        item[i].count = job->node[i].count;
        list[i] = &item[i];
    }
    wire->node = list;
    wire->n_node = job->node_count;
}

static void get_nodes(struct wire_reader *reader, const Wire__Plan *wire, struct shuffle_job *job)
{
    job->address = wire_array(reader, "worker addresses", wire->n_address, CLUSTER_WORKERS_MAX, sizeof *job->address);
    job->node = wire_array(reader, "nodes", wire->n_node, CLUSTER_NODES_MAX, sizeof *job->node);
    if (!job->address || !job->node) {
        wire_refuse(reader, BASE_PROTOCOL, "a plan without nodes");
        return;
    }
    job->workers = (uint32_t)wire->n_address;
    job->node_count = (uint32_t)wire->n_node;
    wire_get_addresses(reader, wire->address, wire->n_address, job->address);
    uint64_t next = 0;
    for (uint32_t i = 0; i < job->node_count && !reader->failed; i++) {
        const Wire__PlanNode *node = wire->node[i];
        char *name = wire_text(reader, "a node's name", node->name, sizeof job->node[i].name - 1);
        if (name && !cluster_name_good(name))
            wire_refuse(reader, BASE_PROTOCOL, "node %u has a name that is not of letters, digits, '-', '_' and '.'",
                        i);
        if (name)
            memcpy(job->node[i].name, name, strlen(name) + 1);
        free(name);
        if (node->first != next || node->count == 0)
            wire_refuse(reader, BASE_PROTOCOL, "the workers of node %u do not follow on the ones before", i);
        job->node[i].first = node->first;
        job->node[i].count = node->count;
        next += node->count;
    }
    if (next != job->workers)
        wire_refuse(reader, BASE_PROTOCOL, "%u worker addresses for %" PRIu64 " workers", job->workers, next);
}

Wire__Plan *wire_put_plan(struct wire_scratch *scratch, const struct cluster_plan *plan)
{
    const struct join_plan *join = &plan->join;
    const struct shuffle_job *job = &plan->job;
    Wire__Plan *wire = wire_take(scratch, 1, sizeof *wire);
    Wire__Side **list = wire_take(scratch, join->sides, sizeof *list);
    Wire__Side *side = wire_take(scratch, join->sides, sizeof *side);
    if (!wire || !list || !side)
        return NULL;
    wire__plan__init(wire);
    wire->kind = plan->kind;
    wire->join_type = join->type;
    wire->null_equal = join->null_equal;
    wire->null_aware = join->null_aware;
    wire->token = (ProtobufCBinaryData){SHUFFLE_TOKEN_BYTES, (uint8_t *)(uintptr_t)job->token};
    wire->settings = wire_put_settings(scratch, &job->settings);
    for (uint32_t i = 0; i < join->sides; i++) {
        put_side(scratch, &join->side[i], &side[i]);
        list[i] = &side[i];
    }
    wire->side = list;
    wire->n_side = join->sides;
    wire->build = join->build;
    wire->into_table = join->into_table;
    wire->output = join->output;
    wire->out = wire_bytes(join->out);
    wire->files = wire_bytes(join->files);
    put_items(scratch, join, wire);
    wire->result = wire_put_schema(scratch, &join->result);
    wire->n_result = join->result.count;
    put_nodes(scratch, job, wire);
    wire->address = wire_put_addresses(scratch, job->address, job->workers);
    wire->n_address = job->workers;
    return wire;
}

/* The settings of a job have no zeros left, but for what nodes choose. */
static void check_settings(struct wire_reader *reader, const struct shuffle_settings *settings)
{
    if (!settings->frame_bytes || !settings->frames_per_lane || !settings->morsel_bytes)
        wire_refuse(reader, BASE_PROTOCOL, "a plan leaves settings open");
}

static void get_job(struct wire_reader *reader, const Wire__Plan *wire, uint64_t id, struct shuffle_job *job)
{
    job->id = id;
    if (wire->token.len != SHUFFLE_TOKEN_BYTES)
        wire_refuse(reader, BASE_PROTOCOL, "a token of %zu bytes", wire->token.len);
    else
        memcpy(job->token, wire->token.data, SHUFFLE_TOKEN_BYTES);
    wire_get_settings(reader, wire->settings, &job->settings);
    check_settings(reader, &job->settings);
    get_nodes(reader, wire, job);
}

static void get_output(struct wire_reader *reader, const Wire__Plan *wire, struct join_plan *plan)
{
    plan->into_table = wire->into_table;
    plan->output =
        (enum shuffle_output_kind)wire_below(reader, "kind of output", wire->output, SHUFFLE_OUTPUT_FIXED + 1);
    plan->out = wire_text_or_null(reader, "output directory", wire->out, PATH_MAX);
    char *files = wire_files(reader, wire->files);
    if (files)
        snprintf(plan->files, sizeof plan->files, "%s", files);
    free(files);
    if (plan->into_table && (plan->kind != JOIN_JOB_SHUFFLE || plan->out))
        wire_refuse(reader, BASE_PROTOCOL, "only a shuffle without an output goes into tables");
    if ((!plan->out) != (plan->output == SHUFFLE_OUTPUT_COUNT))
        wire_refuse(reader, BASE_PROTOCOL, "output kind and output directory contradict each other");
}

static void get_join(struct wire_reader *reader, const Wire__Plan *wire, struct join_plan *plan)
{
    for (uint32_t i = 0; i < wire->n_side && !reader->failed; i++) {
        plan->sides = i + 1;
        get_side(reader, wire->side[i], &plan->side[i]);
    }
    if (reader->failed)
        return;
    check_keys(reader, plan);
    plan->build = wire_below(reader, "build side", wire->build, plan->sides);
    get_type(reader, wire, plan);
    get_output(reader, wire, plan);
    get_items(reader, wire, plan);
}

void wire_get_plan(struct wire_reader *reader, const Wire__Plan *wire, uint64_t job, struct cluster_plan *plan)
{
    if (!wire_there(reader, "plan", wire))
        return;
    plan->kind = (enum cluster_job_kind)wire_below(reader, "kind of job", wire->kind, CLUSTER_KIND_COUNT);
    static const size_t sides[CLUSTER_KIND_COUNT] = {[CLUSTER_KIND_JOIN] = 2, [CLUSTER_KIND_SHUFFLE] = 1};
    if (wire->n_side != sides[plan->kind])
        wire_refuse(reader, BASE_PROTOCOL, "a plan of %zu sides", wire->n_side);
    plan->join.kind = cluster_join_kind(plan->kind);
    if (!reader->failed && plan->kind != CLUSTER_KIND_BISECT)
        get_join(reader, wire, &plan->join);
    if (!reader->failed)
        get_job(reader, wire, job, &plan->job);
}
