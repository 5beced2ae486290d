/* whatis_sample.c - umem whatis: explain an address in or near a sample */
#include "tools/inspect/base/print.h"
#include "tools/inspect/commands/whatis.h"
#include "tools/inspect/model/audit.h"

/* Returns the sample that has this address in its units or guard page. */
static const struct sample *
sample_near(const struct model *model, uint64_t at)
{
	uint64_t unit = layout_value(model->layout, L_HEAP_UNIT);
	uint64_t page = model->target->page_bytes;

	for (size_t i = 0; i < model->nsamples; i++) {
		const struct sample *s = &model->samples[i];
		uint64_t end = s->at + s->size - s->span;
		uint64_t bytes = (end + unit - 1) / unit * unit;

		/* A guard page as large as a unit is a unit of its own. */
		if (s->guarded && unit <= page)
			bytes += page;
		if (s->record != 0 && at >= s->span && at - s->span < bytes)
			return s;
	}
	return NULL;
}

/* Returns the state of a sample in words. */
static const char *
state_text(struct model *model, const struct sample *s)
{
	const struct domain *domain =
	    s->waits ? model_waits_for(model, s->at) : NULL;

	if (!s->waits)
		return "";
	return domain == NULL ? ", waits for a grace period"
			      : xprint(", waits for a grace period of %s",
				    model_flavour(model, domain));
}

/* Returns one of two phrases for which a reader of a fault report searches. */
static const char *
where_text(const struct sample *s, uint64_t at)
{
	if (at < s->at)
		return "before";
	if (at - s->at >= s->size)
		return "past the end of";
	return "in";
}

bool
whatis_say_sample(struct model *model, uint64_t at, bool stack)
{
	const struct sample *s = sample_near(model, at);
	struct audit audit;
	const char *cache;

	if (s == NULL)
		return false;
	audit = audit_of_sample(s);
	cache = s->cache == 0 ? NULL : audit_cache_name(model, &audit);
	json_open(NULL, '{');
	json_address("address", at);
	json_text("kind", "sample");
	json_text("state", s->live    ? "allocated"
			   : s->waits ? "freed, waits for a grace period"
				      : "freed");
	json_text("where", where_text(s, at));
	json_bool("guarded", s->guarded);
	json_address("buffer", s->at);
	json_number("size", s->size);
	if (cache != NULL)
		json_text("cache", cache);
	plain_print("%lx is %lx%c0x%lx, %s %s sample of %s (%lx)%s%s%s%s\n", at,
	    s->at, at >= s->at ? '+' : '-',
	    at >= s->at ? at - s->at : s->at - at, where_text(s, at),
	    s->live ? "an allocated" : "a freed", counted(s->size, "byte"),
	    s->record, cache == NULL ? "" : ", of cache ",
	    cache == NULL ? "" : cache, s->guarded ? ", between guards" : "",
	    state_text(model, s));
	if (stack || json_wanted)
		audit_say_transactions(model, &audit);
	json_close();
	return true;
}
