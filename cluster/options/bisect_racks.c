#include "cluster/options/bisect_racks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void racks_forget(struct cluster_bisect_request *request)
{
    for (uint32_t i = 0; i < request->rack_count; i++) {
        free(request->rack[i].node);
        free(request->rack[i].rack);
    }
    free(request->rack);
    request->rack = NULL;
    request->rack_count = 0;
}

static enum base_status racks_add(struct cluster_bisect_request *request, const char *node, const char *rack,
                                  struct base_error *error)
{
    struct cluster_bisect_rack *grown = realloc(request->rack, (request->rack_count + 1) * sizeof *grown);
    if (!grown)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for racks");
    request->rack = grown;
    grown[request->rack_count] = (struct cluster_bisect_rack){.node = strdup(node), .rack = strdup(rack)};
    request->rack_count++;
    if (!grown[request->rack_count - 1].node || !grown[request->rack_count - 1].rack)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for racks");
    return BASE_OK;
}

/* The line is changed. */
static enum base_status read_line(char *line, const char *path, uint32_t number, struct cluster_bisect_request *request,
                                  struct base_error *error)
{
    static const char key[] = "rack=", blank[] = " \t\r\n";
    enum { NAME_BYTES_MAX = 63 };
    line[strcspn(line, "#")] = '\0';
    char *rest;
    const char *node = strtok_r(line, blank, &rest);
    for (const char *word = node ? strtok_r(NULL, blank, &rest) : NULL; word; word = strtok_r(NULL, blank, &rest)) {
        if (strncmp(word, key, strlen(key)) != 0)
            continue;
        const char *rack = word + strlen(key);
        if (*rack == '\0' || strlen(rack) > NAME_BYTES_MAX || strlen(node) > NAME_BYTES_MAX)
            return base_error_set(error, BASE_PARSE, "--racks=%s, line %u: names have 1 to %d bytes", path, number,
                                  NAME_BYTES_MAX);
        if (request->rack_count == CLUSTER_BISECT_RACKS_MAX)
            return base_error_set(error, BASE_TOO_LARGE, "--racks=%s has more than %d lines", path,
                                  CLUSTER_BISECT_RACKS_MAX);
        return racks_add(request, node, rack, error);
    }
    return BASE_OK;
}

enum base_status bisect_racks_read(const char *path, struct cluster_bisect_request *request, struct base_error *error)
{
    racks_forget(request);
    FILE *file = fopen(path, "r");
    if (!file)
        return base_error_set(error, BASE_NOT_FOUND, "--racks=%s cannot be read: %s", path, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    enum base_status status = BASE_OK;
    for (uint32_t number = 1; status == BASE_OK && getline(&line, &room, file) >= 0; number++)
        status = read_line(line, path, number, request, error);
    if (status == BASE_OK && ferror(file)) /* also a folder: only reading finds it */
        status = base_error_set(error, BASE_INVALID, "--racks=%s cannot be read: %s", path, strerror(errno));
    else if (status == BASE_OK && request->rack_count == 0)
        status = base_error_set(error, BASE_PARSE, "--racks=%s names no rack: lines are NAME ... rack=RACK", path);
    free(line);
    fclose(file);
    return status;
}
