/* The sink of a plain shuffle: delivered rows go to an output as they are. */
#ifndef MILLRACE_SHUFFLE_OUTPUT_SINK_H
#define MILLRACE_SHUFFLE_OUTPUT_SINK_H

#include "shuffle/frames/sink.h"
#include "shuffle/output/output.h"

/* output is one-sided and borrowed. Freed by shuffle_output_sink_close. */
enum base_status shuffle_output_sink_open(struct shuffle_output *output, struct shuffle_sink **sink,
                                          struct base_error *error);
void shuffle_output_sink_close(struct shuffle_sink *sink);

#endif
