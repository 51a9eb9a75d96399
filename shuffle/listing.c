/* From a path to files: one file, the files of a folder and of the folders in it, or what a glob matches.
 *
 * Order: a folder's files by name (byte by byte), then its subfolders by name, each in the same way; a glob's matches
 * by path. Left out, in folders and by globs that do not ask for them: names that begin with '.' or '_', which are of
 * those who write (_SUCCESS.json, _temporary, attempts), and schemas beside data. Linked folders are followed; one that
 * leads back into itself is an error. */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "shuffle/relation.h"

enum { LISTING_DEPTH_MAX = 64 };

/* A folder that is being read, and those it was reached through. */
struct folder {
    const struct folder *parent;
    dev_t device;
    ino_t inode;
    uint32_t depth;
};

static bool has_suffix(const char *text, const char *suffix)
{
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
    if (relation->format == SHUFFLE_FORMAT_CSV && info->st_size == 0)
        return base_error_set(
            error, BASE_PARSE,
            "%s has 0 bytes: a CSV file without rows still has a header; remove the file or write one", path);
    struct shuffle_file *grown = realloc(relation->file, (relation->file_count + 1) * sizeof *grown);
    if (grown == NULL)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a list of %u files", relation->file_count + 1);
    relation->file = grown;
    char *copy = strdup(path);
    if (copy == NULL)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the path %s", path);
    struct shuffle_file *file = &relation->file[relation->file_count++];
    file->path = copy;
    file->packing = shuffle_packing_of(path, NULL);
    shuffle_file_describe(info, file);
    return BASE_OK;
}

bool shuffle_relation_is_data_name(const char *name)
{
    return name[0] != '.' && name[0] != '_' && !has_suffix(name, ".schema");
}

static int is_data(const struct dirent *entry)
{
    return shuffle_relation_is_data_name(entry->d_name);
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

static enum base_status list_folder(struct shuffle_relation *relation, const char *path, const struct stat *info,
                                    const struct folder *parent, struct base_error *error);

/* One entry of a folder: a file in the first round, a subfolder in the second. */
static enum base_status add_entry(struct shuffle_relation *relation, const char *path, bool folders,
                                  const struct folder *folder, struct base_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return base_error_set_errno(error, errno, "cannot look at %s", path);
    if (S_ISDIR(info.st_mode))
        return folders ? list_folder(relation, path, &info, folder, error) : BASE_OK;
    if (folders)
        return BASE_OK;
    if (!S_ISREG(info.st_mode))
        return base_error_set(error, BASE_INVALID, "%s is %s: data is read from regular files", path,
                              base_file_kind_words(info.st_mode));
    const enum base_status status = check_format(relation, path, error);
    return status == BASE_OK ? add_file(relation, path, &info, error) : status;
}

static enum base_status list_folder(struct shuffle_relation *relation, const char *path, const struct stat *info,
                                    const struct folder *parent, struct base_error *error)
{
    const struct folder folder = {parent, info->st_dev, info->st_ino, parent == NULL ? 1 : parent->depth + 1};
    for (const struct folder *above = parent; above != NULL; above = above->parent)
        if (above->device == folder.device && above->inode == folder.inode)
            return base_error_set(error, BASE_INVALID,
                                  "the folder %s is one of those that it is in: a link leads back; remove the link",
                                  path);
    if (folder.depth > LISTING_DEPTH_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "%s lies in more than %d folders", path, LISTING_DEPTH_MAX);
    struct dirent **entry;
    const int count = scandir(path, &entry, is_data, by_name);
    if (count < 0)
        return base_error_set_errno(error, errno, "cannot list %s", path);
    enum base_status status = BASE_OK;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count && status == BASE_OK; i++) {
            char *inside = join_path(path, entry[i]->d_name);
            status = inside != NULL ? add_entry(relation, inside, round == 1, &folder, error)
                                    : base_error_set(error, BASE_NO_MEMORY, "no memory to list %s", path);
            free(inside);
        }
    }
    for (int i = 0; i < count; i++)
        free(entry[i]);
    free(entry);
    return status;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Does the glob ask for such names: "_old*" for "_old1.csv", but "*" not for "_SUCCESS.json"? */
static bool glob_wants(const char *pattern, const char *path)
{
    const char *name = base_name(path), *last = base_name(pattern);
    return shuffle_relation_is_data_name(name) || (last[0] == name[0] && !has_suffix(name, ".schema"));
}

static enum base_status list_glob(struct shuffle_relation *relation, const char *pattern, struct base_error *error)
{
    glob_t found;
    const int result = glob(pattern, GLOB_ERR, NULL, &found);
    if (result != 0) {
        globfree(&found);
        if (result == GLOB_NOMATCH)
            return base_error_set(error, BASE_NOT_FOUND, "no file matches %s on this machine", pattern);
        return base_error_set(error, result == GLOB_NOSPACE ? BASE_NO_MEMORY : BASE_DENIED,
                              "cannot list the files that match %s: a directory on the way cannot be read", pattern);
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
            status = list_folder(relation, path, &info, NULL, error);
        else
            status = add_entry(relation, path, false, NULL, error);
    }
    globfree(&found);
    if (status == BASE_OK && relation->file_count == 0)
        return base_error_set(error, BASE_NOT_FOUND, "no regular file matches %s on this machine", pattern);
    return status;
}

static void drop_files(struct shuffle_relation *relation)
{
    for (uint32_t i = 0; i < relation->file_count; i++)
        free(relation->file[i].path);
    free(relation->file);
    relation->file = NULL;
    relation->file_count = 0;
}

static enum base_status list_path(struct shuffle_relation *relation, const char *path, struct base_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        if (errno == ENOENT && strpbrk(path, "*?[") != NULL)
            return list_glob(relation, path, error);
        if (errno == ENOENT)
            return base_error_set(error, BASE_NOT_FOUND, "%s does not exist on this machine", path);
        return base_error_set_errno(error, errno, "cannot look at %s", path);
    }
    if (S_ISREG(info.st_mode))
        return add_file(relation, path, &info, error);
    if (!S_ISDIR(info.st_mode))
        return base_error_set(error, BASE_INVALID, "%s is %s, neither a regular file nor a directory", path,
                              base_file_kind_words(info.st_mode));
    const enum base_status status = list_folder(relation, path, &info, NULL, error);
    if (status == BASE_OK && relation->file_count == 0)
        return base_error_set(error, BASE_NOT_FOUND,
                              "%s holds no data files (names that begin with '.' or '_' do not count)", path);
    return status;
}

enum base_status shuffle_relation_list(struct shuffle_relation *relation, const char *path, struct base_error *error)
{
    drop_files(relation);
    const enum base_status status = list_path(relation, path, error);
    if (status != BASE_OK)
        drop_files(relation);
    return status;
}
