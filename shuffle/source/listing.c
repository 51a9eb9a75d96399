/* From a path to files: one file, the files of a folder and of the folders in it, or what a glob matches.
 *
 * Order: a folder's files by name (byte by byte), then its subfolders by name, each likewise; a glob's matches
 * by path. Left out, in folders and by globs that do not ask for them: names that begin with '.' or '_', which are of
 * those who write (_SUCCESS.json, _temporary, attempts), and schemas beside data. Linked folders are followed; a folder
 * that is reached twice, also when a link leads back into it, is an error: its rows would count twice. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/file.h"
#include "shuffle/source/relation.h"

enum { LISTING_DEPTH_MAX = 64 };

/* A folder that was listed. */
struct seen {
    dev_t device;
    ino_t inode;
    char path[];
};

struct listing {
    struct shuffle_relation *relation;
    void *seen; /* of tsearch(3) */
};

static bool has_suffix(const char *text, const char *suffix)
{
    BASE_ASSERT(text && suffix);
    const size_t bytes = strlen(text), tail = strlen(suffix);
    return bytes >= tail && memcmp(text + bytes - tail, suffix, tail) == 0;
}

/* Does the name end so, apart from the suffix of a compressed file? */
static bool is_of(const char *path, const char *suffix)
{
    size_t bytes;
    shuffle_packing_of(path, &bytes);
    const size_t tail = strlen(suffix);
    return bytes >= tail && memcmp(path + bytes - tail, suffix, tail) == 0;
}

static bool is_fixed(const char *path)
{
    return is_of(path, ".bin");
}

static bool is_tabbed(const char *path)
{
    return is_of(path, ".tsv");
}

void shuffle_relation_format_by_suffix(struct shuffle_relation *relation, const char *path)
{
    if (is_fixed(path) && !relation->format_given)
        relation->format = SHUFFLE_FORMAT_FIXED;
    else if (is_tabbed(path) && !relation->delimiter_given)
        relation->csv.delimiter = '\t';
}

/* Files found together tell their format by their names, which must agree. */
static enum base_status check_format(struct shuffle_relation *relation, const char *path, struct base_error *error)
{
    if (relation->file_count == 0) {
        shuffle_relation_format_by_suffix(relation, path);
        return BASE_OK;
    }
    const char *first = relation->file[0].path;
    const bool same_format = relation->format_given || is_fixed(path) == is_fixed(first);
    if (same_format && (relation->delimiter_given || is_tabbed(path) == is_tabbed(first)))
        return BASE_OK;
    return base_error_set(error, BASE_INVALID,
                          "%s is of another format than the files before it, such as %s: name the files of one format "
                          "with a glob, such as 'DIR/*.csv'",
                          path, first);
}

static enum base_status add_file(struct shuffle_relation *relation, const char *path, const struct stat *info,
                                 struct base_error *error)
{
    const enum shuffle_packing packing = shuffle_packing_of(path, NULL);
    if (info->st_size == 0 && (relation->format == SHUFFLE_FORMAT_CSV || packing != SHUFFLE_PACKING_NONE))
        return base_error_set(error, BASE_PARSE, "%s has 0 bytes: %s; remove the file or write one", path,
                              packing == SHUFFLE_PACKING_NONE ? "a CSV file without rows still has a header"
                                                              : "a compressed file without rows still has a header");
    struct shuffle_file *grown = realloc(relation->file, (relation->file_count + 1) * sizeof *grown);
    if (!grown)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a list of %u files", relation->file_count + 1);
    relation->file = grown;
    char *copy = strdup(path);
    if (!copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the path %s", path);
    struct shuffle_file *file = &relation->file[relation->file_count++];
    file->path = copy;
    file->packing = packing;
    shuffle_file_describe(info, file);
    return BASE_OK;
}

/* Is a file of this name in a folder data: neither hidden, nor one that begins with '_', nor a schema beside data? */
static int is_data(const struct dirent *entry)
{
    const char *name = entry->d_name;
    return name[0] != '.' && name[0] != '_' && !has_suffix(name, ".schema");
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* malloc'ed, or NULL. */
static char *join_path(const char *directory, const char *name)
{
    char *path;
    return asprintf(&path, "%s%s%s", directory, has_suffix(directory, "/") ? "" : "/", name) < 0 ? NULL : path;
}

static int by_identity(const void *one, const void *other)
{
    const struct seen *a = one, *b = other;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return a->inode < b->inode ? -1 : a->inode > b->inode;
}

/* Notes the folder, which must not have been listed before. */
static enum base_status see_folder(struct listing *listing, const char *path, const struct stat *info,
                                   struct base_error *error)
{
    struct seen *seen = malloc(sizeof *seen + strlen(path) + 1);
    struct seen **found = NULL;
    if (seen) {
        seen->device = info->st_dev;
        seen->inode = info->st_ino;
        strcpy(seen->path, path);
        found = tsearch(seen, &listing->seen, by_identity);
    }
    if (found && *found == seen)
        return BASE_OK;
    free(seen);
    if (!found)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to list %s", path);
    return base_error_set(error, BASE_INVALID,
                          "the folder %s is %s by another name, by a link: its rows would count twice; remove the "
                          "link, or name what you mean with a glob",
                          path, (*found)->path);
}

static enum base_status note_bare(struct shuffle_relation *relation, const char *path, struct base_error *error)
{
    char **grown = realloc(relation->bare, (relation->bare_count + 1) * sizeof *grown);
    if (grown)
        relation->bare = grown;
    char *copy = grown ? strdup(path) : NULL;
    if (!copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to list %s", path);
    grown[relation->bare_count++] = copy;
    return BASE_OK;
}

static enum base_status list_folder(struct listing *listing, const char *path, const struct stat *info, uint32_t depth,
                                    struct base_error *error);

/* One entry of a folder `depth` deep: a file in the first round, a subfolder in the second. */
static enum base_status add_entry(struct listing *listing, const char *path, bool folders, uint32_t depth,
                                  struct base_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return base_error_set_errno(error, errno, "cannot look at %s", path);
    if (S_ISDIR(info.st_mode))
        return folders ? list_folder(listing, path, &info, depth + 1, error) : BASE_OK;
    if (folders)
        return BASE_OK;
    if (!S_ISREG(info.st_mode))
        return base_error_set(error, BASE_INVALID, "%s is %s: data is read from regular files", path,
                              base_file_kind_words(info.st_mode));
    const enum base_status status = check_format(listing->relation, path, error);
    return status == BASE_OK ? add_file(listing->relation, path, &info, error) : status;
}

static enum base_status list_folder(struct listing *listing, const char *path, const struct stat *info, uint32_t depth,
                                    struct base_error *error)
{
    enum base_status status = see_folder(listing, path, info, error);
    if (status != BASE_OK)
        return status;
    if (depth > LISTING_DEPTH_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "%s lies in more than %d folders", path, LISTING_DEPTH_MAX);
    struct dirent **entry;
    const int count = scandir(path, &entry, is_data, by_name);
    if (count < 0)
        return base_error_set_errno(error, errno, "cannot list %s", path);
    const uint32_t files_before = listing->relation->file_count;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count && status == BASE_OK; i++) {
            char *inside = join_path(path, entry[i]->d_name);
            status = inside ? add_entry(listing, inside, round == 1, depth, error)
                            : base_error_set(error, BASE_NO_MEMORY, "no memory to list %s", path);
            free(inside);
        }
        if (round == 0 && status == BASE_OK && listing->relation->file_count == files_before)
            status = note_bare(listing->relation, path, error);
    }
    for (int i = 0; i < count; i++)
        free(entry[i]);
    free(entry);
    return status;
}

static const char *next_part(const char *path)
{
    const char *slash = strchr(path, '/');
    return !slash ? NULL : slash + 1;
}

/* Does the glob ask for such names, part by part: "_old*" for "_old1.csv", but "*" not for "_SUCCESS.json"? */
static bool glob_wants(const char *pattern, const char *path)
{
    const char *name = path, *wanted = pattern;
    for (; name && wanted; name = next_part(name), wanted = next_part(wanted))
        if ((*name == '.' || *name == '_') && *wanted != *name)
            return false;
    return !has_suffix(path, ".schema");
}

static enum base_status list_glob(struct listing *listing, const char *pattern, struct base_error *error)
{
    glob_t found;
    const int result = glob(pattern, GLOB_ERR, NULL, &found);
    if (result != 0) {
        globfree(&found);
        if (result == GLOB_NOMATCH)
            return base_error_set(error, BASE_NOT_FOUND, "no file matches %s on this machine", pattern);
        return base_error_set(error, result == GLOB_NOSPACE ? BASE_NO_MEMORY : BASE_DENIED,
                              "cannot list the files that match %s: a directory of that path cannot be read", pattern);
    }
    enum base_status status = BASE_OK;
    for (size_t i = 0; i < found.gl_pathc && status == BASE_OK; i++) {
        const char *path = found.gl_pathv[i];
        struct stat info;
        if (!glob_wants(pattern, path))
            continue;
        if (stat(path, &info) != 0)
            status = base_error_set_errno(error, errno, "cannot look at %s", path);
        else if (S_ISDIR(info.st_mode))
            status = list_folder(listing, path, &info, 1, error);
        else
            status = add_entry(listing, path, false, 0, error);
    }
    globfree(&found);
    if (status == BASE_OK && listing->relation->file_count == 0)
        return base_error_set(error, BASE_NOT_FOUND, "no regular file matches %s on this machine", pattern);
    return status;
}

static enum base_status list_path(struct listing *listing, const char *path, struct base_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno == ENOENT && strpbrk(path, "*?[") != NULL)
            return list_glob(listing, path, error);
        if (errno == ENOENT)
            return base_error_set(error, BASE_NOT_FOUND, "%s does not exist on this machine", path);
        return base_error_set_errno(error, errno, "cannot look at %s", path);
    }
    if (S_ISREG(info.st_mode))
        return add_file(listing->relation, path, &info, error);
    if (!S_ISDIR(info.st_mode))
        return base_error_set(error, BASE_INVALID, "%s is %s, neither a regular file nor a directory", path,
                              base_file_kind_words(info.st_mode));
    const enum base_status status = list_folder(listing, path, &info, 1, error);
    if (status == BASE_OK && listing->relation->file_count == 0)
        return base_error_set(error, BASE_NOT_FOUND,
                              "%s holds no data files (names that begin with '.' or '_' do not count)", path);
    return status;
}

void shuffle_relation_forget_files(struct shuffle_relation *relation)
{
    for (uint32_t i = 0; i < relation->file_count; i++)
        free(relation->file[i].path);
    free(relation->file);
    for (uint32_t i = 0; i < relation->bare_count; i++)
        free(relation->bare[i]);
    free(relation->bare);
    relation->file = NULL;
    relation->bare = NULL;
    relation->file_count = relation->bare_count = 0;
}

enum base_status shuffle_relation_list(struct shuffle_relation *relation, const char *path, struct base_error *error)
{
    struct listing listing = {.relation = relation};
    shuffle_relation_forget_files(relation);
    const enum base_status status = list_path(&listing, path, error);
    tdestroy(listing.seen, free);
    if (status != BASE_OK)
        shuffle_relation_forget_files(relation);
    return status;
}
