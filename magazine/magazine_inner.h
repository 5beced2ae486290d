/* magazine_inner.h - marks of a layer, for magazine.c and magazine_drain.c */
#ifndef MAGAZINE_MAGAZINE_INNER_H
#define MAGAZINE_MAGAZINE_INNER_H

#include "magazine/cpu_marks.h"
#include "magazine/magazine.h"

/* Are some rounds of the layer marked? */
static inline bool
has_marks(const struct magazine_layer *layer)
{
	return unlikely(
		   layer->object_bytes <= load_relaxed(&cpu_marks.bytes_max)) &&
	       layer->is_marked;
}

/*
 * Release the owned header, and decide which of the loaded rounds is marked.
 * mark_newest: the newest one is.
 */
static inline void
layer_release(
    const struct magazine_layer *layer, struct cpu_owned *own, bool mark_newest)
{
	if (has_marks(layer))
		own->nmarked =
		    mark_newest
			? own->nrounds
			: own->nrounds - cpu_marks.chooser->find(
					     layer->object_bytes, own->nrounds);
	cpu_release(own);
}

#endif
