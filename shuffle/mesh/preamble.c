#include "shuffle/mesh/preamble.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "net/proof/proof.h"

void shuffle_preamble_fill(const struct shuffle_mesh_config *config, uint32_t destination,
                           struct shuffle_preamble *preamble)
{
    *preamble = (struct shuffle_preamble){
        .magic = SHUFFLE_PREAMBLE_MAGIC,
        .protocol = base_build_protocol(),
        .job = config->job,
        .source = config->worker,
        .destination = destination,
    };
    memcpy(preamble->token, config->token, SHUFFLE_TOKEN_BYTES);
}

static bool token_equal(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t difference = 0;
    for (int i = 0; i < SHUFFLE_TOKEN_BYTES; i++)
        difference |= a[i] ^ b[i];
    return difference == 0;
}

const char *shuffle_preamble_check(const struct shuffle_mesh_config *config, const struct shuffle_preamble *preamble,
                                   char text[SHUFFLE_PREAMBLE_TEXT_BYTES])
{
    if (preamble->magic == NET_PROOF_MAGIC)
        return "it proves a key, and this daemon has none";
    if (preamble->magic != SHUFFLE_PREAMBLE_MAGIC)
        return "it does not speak this protocol";
    if (preamble->protocol != base_build_protocol()) {
        char ours[BASE_BUILD_TEXT_BYTES];
        snprintf(text, SHUFFLE_PREAMBLE_TEXT_BYTES,
                 "speaks protocol %08" PRIx32 ", and this is millrace %s: install one build of Millrace on all "
                 "machines",
                 preamble->protocol, base_build_describe(ours));
        return text;
    }
    if (!token_equal(preamble->token, config->token) || preamble->job != config->job)
        return "it does not know this job's token";
    if (preamble->destination != config->worker)
        return "it is for another worker";
    const bool local =
        preamble->source >= config->local_first && preamble->source - config->local_first < config->local_count;
    if (preamble->source >= config->workers || local)
        return "it is no worker of another node";
    return NULL;
}
