/* Planning: from a request in words and two resolved relations to a plan. Pure: no disk, no network. In order: keys
 * (names, classes), items of the result, what must travel (keys and items, each column once), the build side, settings.
 */
#include "join/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/size.h"
#include "join/words.h"
#include "shuffle/frames/frame.h"

/* PACKED: how many times its size a compressed file holds. */
enum { PLAN_ROW_GUESS_BYTES = 32, PLAN_TEXT_GUESS_BYTES = 16, PLAN_PACKED_GUESS = 4 };

const char *join_type_word(enum join_type type)
{
    static const char *const words[JOIN_TYPE_COUNT] = {
#define X(name, word) [JOIN_TYPE_##name] = word,
        JOIN_TYPE_LIST(X)
#undef X
    };
    BASE_ASSERT((unsigned)type < JOIN_TYPE_COUNT); /* the codec lets no other in */
    return words[type];
}

static const char *plan_side_word(const struct join_plan *plan, uint32_t side)
{
    if (plan->sides == 1)
        return "in";
    return side == 0 ? "left" : "right";
}

uint64_t join_plan_relation_bytes(const struct shuffle_relation *relation)
{
    uint64_t bytes = 0;
    if (relation->placement == SHUFFLE_GENERATED)
        return base_size_multiply_most(relation->generator.rows, relation->generator.row_bytes);
    for (uint32_t i = 0; i < relation->file_count; i++)
        bytes = base_size_add_most(bytes, relation->file[i].packing == SHUFFLE_PACKING_NONE
                                              ? relation->file[i].bytes
                                              : base_size_multiply_most(relation->file[i].bytes, PLAN_PACKED_GUESS));
    return bytes;
}

uint64_t join_plan_relation_rows(const struct shuffle_relation *relation)
{
    if (relation->placement == SHUFFLE_GENERATED)
        return relation->generator.rows;
    const uint64_t bytes = join_plan_relation_bytes(relation);
    if (relation->format != SHUFFLE_FORMAT_FIXED)
        return bytes / PLAN_ROW_GUESS_BYTES;
    uint64_t row_bytes = 0;
    uint32_t null_bits = 0;
    for (uint32_t i = 0; i < relation->schema.count; i++) {
        row_bytes += relation->schema.field[i].width;
        null_bits += relation->schema.field[i].nullable;
    }
    row_bytes += (null_bits + 7) / 8;
    return row_bytes > 0 ? bytes / row_bytes : 0;
}

bool join_plan_rows_exact(const struct shuffle_relation *relation)
{
    for (uint32_t i = 0; i < relation->file_count; i++)
        if (relation->file[i].packing != SHUFFLE_PACKING_NONE)
            return false;
    return relation->format == SHUFFLE_FORMAT_FIXED;
}

/* Adds `column` of the source to what travels, unless it does already; returns its place. */
static uint32_t plan_project(struct join_side *side, uint32_t column)
{
    for (uint32_t i = 0; i < side->project_count; i++)
        if (side->project[i] == column)
            return i;
    BASE_ASSERT(side->project_count < side->relation.schema.count);
    side->project[side->project_count] = column;
    return side->project_count++;
}

/* Finds a column of one side by name, or says what there is to choose from. */
static enum base_status plan_find(const struct join_plan *plan, uint32_t side, const char *name, uint32_t *column,
                                  struct base_error *error)
{
    const struct shuffle_schema *schema = &plan->side[side].relation.schema;
    const int found = shuffle_schema_find(schema, name);
    if (found >= 0) {
        *column = (uint32_t)found;
        return BASE_OK;
    }
    char list[400];
    join_words_columns(schema, list, sizeof list);
    static const char *const inputs[2] = {"left input", "right input"};
    const char *where = plan->sides == 1 ? "input" : inputs[side];
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(error, BASE_NOT_FOUND, "the %s has no column \"%s\"%s; its columns are %s", where, name,
                          shuffle_schema_hint(schema, name, hint), list);
}

/* No input has a column `name`: says what each has. */
static enum base_status plan_find_nowhere(const struct join_plan *plan, const char *name, struct base_error *error)
{
    uint32_t column;
    if (plan->sides == 1)
        return plan_find(plan, 0, name, &column, error);
    char left[200], right[200], hint[BASE_NEAREST_HINT_BYTES];
    if (*shuffle_schema_hint(&plan->side[0].relation.schema, name, hint) == '\0')
        shuffle_schema_hint(&plan->side[1].relation.schema, name, hint);
    join_words_columns(&plan->side[0].relation.schema, left, sizeof left);
    join_words_columns(&plan->side[1].relation.schema, right, sizeof right);
    return base_error_set(error, BASE_NOT_FOUND,
                          "no input has a column \"%s\"%s; the columns of the left one are %s; of the right one %s",
                          name, hint, left, right);
}

static enum base_status plan_add_key(struct join_plan *plan, uint32_t side, uint32_t column,
                                     enum shuffle_key_class class)
{
    struct join_side *of = &plan->side[side];
    BASE_ASSERT(side < plan->sides && of->key.count < SHUFFLE_KEY_PARTS_MAX);
    of->key.part[of->key.count++] = (struct shuffle_key_part){.column = plan_project(of, column), .class = class};
    of->key_nullable |= of->relation.schema.field[column].nullable;
    return BASE_OK;
}

/* How keys treat NULLs. Where no key column can be NULL nothing is left of --null-equal. */
static enum base_status plan_null_rules(struct join_plan *plan, struct base_error *error)
{
    if (plan->null_aware && plan->side[0].key.count > 1)
        return base_error_set(error, BASE_UNSUPPORTED,
                              "--null-aware takes one pair of columns in --on, and there are %u; without it "
                              "--type=anti takes any number",
                              plan->side[0].key.count);
    BASE_ASSERT(plan->side[0].key.count > 0 &&
                (plan->sides == 1 || plan->side[0].key.count == plan->side[1].key.count));
    plan->null_equal &= plan->side[0].key_nullable || plan->side[1].key_nullable;
    for (uint32_t side = 0; side < plan->sides; side++)
        plan->side[side].key.null_equal = plan->null_equal;
    return BASE_OK;
}

/* "a=b,c=d", or "k,l" for a shuffle. */
static enum base_status plan_keys(struct join_plan *plan, const char *on, struct base_error *error)
{
    const char *at = on ? on : "";
    const uint32_t sides = plan->sides;
    BASE_ASSERT(sides <= 2);
    enum base_status status;
    do {
        char name[2][SHUFFLE_NAME_BYTES_MAX + 1];
        uint32_t column[2] = {0, 0};
        if (plan->side[0].key.count == SHUFFLE_KEY_PARTS_MAX)
            return base_error_set(error, BASE_TOO_LARGE, "a key has at most %d columns", SHUFFLE_KEY_PARTS_MAX);
        status = join_words_name(&at, sides == 2 ? "=" : ",", name[0], error);
        if (status == BASE_OK && sides == 2 && *at++ != '=')
            return base_error_set(
                error, BASE_INVALID,
                "--on takes left=right[,left=right ...], but \"%s\" has no '=' after \"%s\": write %s=%s "
                "if both columns have that name",
                on ? on : "", name[0], name[0], name[0]);
        if (status == BASE_OK && sides == 2)
            status = join_words_name(&at, ",", name[1], error);
        for (uint32_t side = 0; side < sides && status == BASE_OK; side++)
            status = plan_find(plan, side, name[side], &column[side], error);
        if (status != BASE_OK)
            return status;
        const struct shuffle_field *a = &plan->side[0].relation.schema.field[column[0]];
        const struct shuffle_field *b = sides == 2 ? &plan->side[1].relation.schema.field[column[1]] : a;
        enum shuffle_key_class class;
        status = shuffle_key_pair_class(a, b, &class, error);
        if (status != BASE_OK)
            return status;
        for (uint32_t side = 0; side < sides; side++)
            plan_add_key(plan, side, column[side], class);
    } while (*at++ == ',');
    return plan_null_rules(plan, error);
}

/* Sides that the result has columns of. */
static uint32_t plan_result_sides(const struct join_plan *plan)
{
    return join_type_pairs(plan->type) ? plan->sides : 1;
}

static enum base_status plan_add_item(struct join_plan *plan, uint32_t side, uint32_t column, struct base_error *error)
{
    BASE_ASSERT(side < plan_result_sides(plan));
    if (plan->item_count == SHUFFLE_COLUMNS_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "the result would have more than %d columns; use --select",
                              SHUFFLE_COLUMNS_MAX);
    plan->item[plan->item_count++] =
        (struct shuffle_output_item){.side = side, .column = plan_project(&plan->side[side], column)};
    return BASE_OK;
}

/* Names the items of one side: a name that another item has already gets the side's in front. */
static enum base_status plan_name_side(const struct join_plan *plan, uint32_t side, struct shuffle_schema *named,
                                       struct shuffle_field *field, struct base_error *error)
{
    const struct join_side *from = &plan->side[side];
    enum base_status status = BASE_OK;
    BASE_ASSERT(plan->item_count <= SHUFFLE_COLUMNS_MAX); /* as field has room for */
    for (uint32_t i = 0; i < plan->item_count && status == BASE_OK; i++) {
        if (plan->item[i].side != side)
            continue;
        BASE_ASSERT(plan->item[i].column < from->project_count); /* what the result has travels */
        field[i] = from->relation.schema.field[from->project[plan->item[i].column]];
        field[i].nullable |= plan->sides == 2 && join_type_pads(plan->type, side);
        if (shuffle_schema_find(named, field[i].name) >= 0)
            status = join_words_rename(named, plan_side_word(plan, side), field[i].name, error);
        if (status == BASE_OK)
            status = shuffle_schema_append(named, &field[i], error);
    }
    return status;
}

/* The schema of the result. All of the left side are named first: of two columns of one name it is the right one that
 * gets another, in whatever order they are selected. */
static enum base_status plan_name_items(struct join_plan *plan, struct base_error *error)
{
    struct shuffle_schema named = {0};
    struct shuffle_field *field = calloc(SHUFFLE_COLUMNS_MAX, sizeof *field);
    if (!field)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a plan");
    enum base_status status = BASE_OK;
    for (uint32_t side = 0; side < plan->sides && status == BASE_OK; side++)
        status = plan_name_side(plan, side, &named, field, error);
    for (uint32_t i = 0; i < plan->item_count && status == BASE_OK; i++)
        status = shuffle_schema_append(&plan->result, &field[i], error);
    BASE_ASSERT(status != BASE_OK || plan->result.count == plan->item_count);
    shuffle_schema_free(&named);
    free(field);
    return status;
}

static enum base_status plan_no_right_column(const struct join_plan *plan, const char *name, struct base_error *error)
{
    return base_error_set(error, BASE_INVALID,
                          "--select names column \"%s\" of the right side, but the result of --type=%s has columns of "
                          "the left side only: omit it",
                          name, join_type_word(plan->type));
}

/* A bare name must be unambiguous; "left.a" and "right.a" never are anything else. Where the result has columns of the
 * left side only, a bare name is one of those. */
static enum base_status plan_resolve_item(const struct join_plan *plan, const char *prefix, const char *name,
                                          uint32_t *side, uint32_t *column, struct base_error *error)
{
    if (prefix) {
        *side = strcmp(prefix, "right") == 0;
        if (*side >= plan->sides)
            return base_error_set(error, BASE_NOT_FOUND, "--select names the right side, but there is one input only");
        const enum base_status status = plan_find(plan, *side, name, column, error);
        return status == BASE_OK && *side >= plan_result_sides(plan) ? plan_no_right_column(plan, name, error) : status;
    }
    int found[2] = {-1, -1};
    for (uint32_t i = 0; i < plan->sides; i++)
        found[i] = shuffle_schema_find(&plan->side[i].relation.schema, name);
    if (found[0] < 0 && found[1] >= 0 && plan_result_sides(plan) == 1)
        return plan_no_right_column(plan, name, error);
    if (found[0] >= 0 && found[1] >= 0 && plan_result_sides(plan) == 2)
        return base_error_set(error, BASE_INVALID,
                              "--select: both sides have a column \"%s\"; write left.%s or right.%s", name, name, name);
    if (found[0] < 0 && found[1] < 0)
        return plan_find_nowhere(plan, name, error);
    *side = found[0] < 0;
    *column = (uint32_t)found[*side];
    return BASE_OK;
}

static enum base_status plan_select(struct join_plan *plan, const char *select, struct base_error *error)
{
    enum base_status status = BASE_OK;
    if (!select) {
        for (uint32_t side = 0; side < plan_result_sides(plan); side++)
            for (uint32_t c = 0; c < plan->side[side].relation.schema.count && status == BASE_OK; c++)
                status = plan_add_item(plan, side, c, error);
        return status;
    }
    const char *at = select;
    do {
        const char *prefix = join_words_side(&at);
        char name[SHUFFLE_NAME_BYTES_MAX + 1];
        uint32_t side = 0, column = 0;
        status = join_words_name(&at, ",", name, error);
        if (status == BASE_OK)
            status = plan_resolve_item(plan, prefix, name, &side, &column, error);
        if (status == BASE_OK)
            status = plan_add_item(plan, side, column, error);
    } while (status == BASE_OK && *at++ == ',');
    return status;
}

/* May a row have these columns? */
static enum base_status plan_check_row(const struct shuffle_schema *schema, struct base_error *error)
{
    struct shuffle_layout layout;
    const enum base_status status = shuffle_layout_prepare(schema, &layout, error);
    if (status == BASE_OK)
        shuffle_layout_free(&layout);
    return status;
}

/* The schema of what travels, once all columns are known. */
static enum base_status plan_projection(struct join_side *side, struct base_error *error)
{
    enum base_status status = BASE_OK;
    BASE_ASSERT(side->schema.count == 0 && side->project_count > 0); /* once, when keys and items are known */
    for (uint32_t i = 0; i < side->project_count && status == BASE_OK; i++)
        status = shuffle_schema_append(&side->schema, &side->relation.schema.field[side->project[i]], error);
    return status == BASE_OK ? plan_check_row(&side->schema, error) : status;
}

/* What no row of the result could be written as, or none read back: said before any node opens a file. */
static enum base_status plan_check_output(const struct join_plan *plan, struct base_error *error)
{
    if (plan->output == SHUFFLE_OUTPUT_COUNT)
        return BASE_OK;
    const enum base_status status = plan_check_row(&plan->result, error);
    if (status != BASE_OK)
        return status;
    uint64_t text = 0; /* at least, with a delimiter or line end each */
    for (uint32_t i = 0; i < plan->result.count; i++) {
        const struct shuffle_field *field = &plan->result.field[i];
        text += 1 + (field->type == SHUFFLE_FIXED && !field->nullable ? 2 + 2 * (uint64_t)field->width : 0);
    }
    if (plan->output == SHUFFLE_OUTPUT_CSV && text > SHUFFLE_ROW_BYTES_MAX)
        return base_error_set(error, BASE_TOO_LARGE,
                              "the text of a result row would have at least %" PRIu64
                              " bytes, more than the %u bytes a "
                              "record may have, and could not be read back: select fewer columns with --select, or "
                              "write --output-format=bin",
                              text, SHUFFLE_ROW_BYTES_MAX);
    for (uint32_t i = 0; i < plan->result.count && plan->output == SHUFFLE_OUTPUT_FIXED; i++)
        if (shuffle_type_variable(plan->result.field[i].type)) {
            char type[48];
            shuffle_field_format_type(&plan->result.field[i], type);
            return base_error_set(error, BASE_TYPE,
                                  "column \"%s\" is a %s: fixed-width output has no room for columns of variable "
                                  "length: select other columns, or write CSV",
                                  plan->result.field[i].name, type);
        }
    return BASE_OK;
}

static enum base_status plan_check_request(const struct join_request *request, struct base_error *error)
{
    if (!request->on || request->on[0] == '\0')
        return base_error_set(error, BASE_INVALID, "a key is needed: %s",
                              request->kind == JOIN_JOB_JOIN ? "--on left=right" : "--by column");
    if (request->null_aware && request->type != JOIN_TYPE_ANTI)
        return base_error_set(error, BASE_INVALID,
                              "--null-aware gives --type=anti the rule of NOT IN; --type=%s has no such rule",
                              join_type_word(request->type));
    if (request->null_aware && request->null_equal)
        return base_error_set(error, BASE_INVALID,
                              "--null-aware and --null-equal contradict each other: for NOT IN a NULL equals nothing");
    if (request->into_table && (request->kind != JOIN_JOB_SHUFFLE || request->out))
        return base_error_set(error, BASE_INVALID, "--into table is for a shuffle without --out");
    return BASE_OK;
}

static enum base_status plan_allocate(struct join_plan *plan, struct base_error *error)
{
    plan->item = calloc(SHUFFLE_COLUMNS_MAX, sizeof *plan->item);
    bool whole = plan->item;
    for (uint32_t side = 0; side < plan->sides; side++) {
        const uint32_t columns = plan->side[side].relation.schema.count;
        plan->side[side].project = calloc(columns > 0 ? columns : 1, sizeof(uint32_t));
        whole = whole && plan->side[side].project;
    }
    return whole ? BASE_OK : base_error_set(error, BASE_NO_MEMORY, "no memory for a plan");
}

/* In a fixed-width file nothing tells a bad row from a schema that does not fit. */
static enum base_status plan_check_bad_rows(const struct join_plan *plan, struct base_error *error)
{
    for (uint32_t side = 0; side < plan->sides; side++) {
        const struct shuffle_relation *relation = &plan->side[side].relation;
        if (relation->csv.bad_rows_max > 0 && relation->format == SHUFFLE_FORMAT_FIXED)
            return base_error_set(error, BASE_INVALID,
                                  "--%sskip-bad-rows skips rows of CSV files only, and this input is of rows of "
                                  "fixed width: leave the option away",
                                  plan->sides == 1 ? ""
                                  : side == 0      ? "left-"
                                                   : "right-");
    }
    return BASE_OK;
}

enum base_status join_plan_make(const struct join_request *request, struct shuffle_relation relation[2],
                                struct join_plan *plan, struct base_error *error)
{
    struct join_plan made = {.kind = request->kind,
                             .type = request->type,
                             .null_equal = request->null_equal,
                             .null_aware = request->null_aware,
                             .sides = request->kind == JOIN_JOB_JOIN ? 2 : 1,
                             .into_table = request->into_table,
                             .output = request->out ? request->output : SHUFFLE_OUTPUT_COUNT};
    for (uint32_t side = 0; side < made.sides; side++)
        made.side[side].relation = relation[side];
    enum base_status status = plan_check_request(request, error);
    if (status == BASE_OK)
        status = plan_check_bad_rows(&made, error);
    if (status == BASE_OK)
        status = plan_allocate(&made, error);
    if (status == BASE_OK)
        status = plan_keys(&made, request->on, error);
    if (status == BASE_OK)
        status = plan_select(&made, request->select, error);
    if (status == BASE_OK)
        status = plan_name_items(&made, error);
    if (status == BASE_OK)
        status = plan_check_output(&made, error);
    for (uint32_t side = 0; side < made.sides && status == BASE_OK; side++)
        status = plan_projection(&made.side[side], error);
    if (status == BASE_OK && request->out) {
        made.out = strdup(request->out);
        if (!made.out)
            status = base_error_set(error, BASE_NO_MEMORY, "no memory for a plan");
    }
    if (status != BASE_OK) {
        join_plan_free(&made);
        return status;
    }
    if (made.sides == 2)
        made.build = made.null_aware || join_plan_relation_bytes(&made.side[1].relation) <
                                            join_plan_relation_bytes(&made.side[0].relation);
    /* What every worker relies on, whichever plan the wire brings it. */
    BASE_ASSERT(made.build < made.sides && (!made.null_aware || made.build == 1));
    *plan = made;
    return BASE_OK;
}

uint64_t join_plan_bytes_max(const struct join_plan *plan)
{
    uint64_t bytes_max = 0;
    for (uint32_t side = 0; side < plan->sides; side++)
        bytes_max = base_max_u64(bytes_max, join_plan_relation_bytes(&plan->side[side].relation));
    return bytes_max;
}

void join_plan_add_traffic(const struct join_plan *plan, uint32_t workers, struct net_traffic *traffic)
{
    BASE_ASSERT(workers > 0);
    for (uint32_t side = 0; side < plan->sides; side++) {
        uint32_t row_bytes = 0;
        for (uint32_t i = 0; i < plan->side[side].schema.count; i++)
            row_bytes += shuffle_type_variable(plan->side[side].schema.field[i].type)
                             ? PLAN_TEXT_GUESS_BYTES
                             : plan->side[side].schema.field[i].width;
        traffic->row_bytes = row_bytes > traffic->row_bytes ? row_bytes : traffic->row_bytes;
    }
    traffic->connection_bytes = join_plan_bytes_max(plan) / workers / workers;
}

const char *join_plan_extension(const struct join_plan *plan)
{
    return plan->output == SHUFFLE_OUTPUT_FIXED ? "bin" : "csv";
}

void join_plan_free(struct join_plan *plan)
{
    for (uint32_t side = 0; side < 2; side++) {
        shuffle_relation_free(&plan->side[side].relation);
        shuffle_schema_free(&plan->side[side].schema);
        free(plan->side[side].project);
    }
    shuffle_schema_free(&plan->result);
    free(plan->item);
    free(plan->out);
    memset(plan, 0, sizeof *plan);
}
