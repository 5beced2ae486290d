/* list.h - circular doubly linked list; each member embeds its links */
#ifndef VMEM_LIST_H
#define VMEM_LIST_H

#include "vmem/base.h"
#include "vmem/panic.h"

/* Either the head of a list, or the links embedded in a member. */
struct list {
	struct list *next;
	struct list *prev;
};

static inline void
list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline bool
list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void
list_add_after(struct list *at, struct list *item)
{
	umem_assert(at->next->prev == at);
	item->prev = at;
	item->next = at->next;
	at->next->prev = item;
	at->next = item;
}

static inline void
list_add_head(struct list *head, struct list *item)
{
	list_add_after(head, item);
}

static inline void
list_add_tail(struct list *head, struct list *item)
{
	list_add_after(head->prev, item);
}

/*
 * Afterwards the item is a list of one, so that a second removal of the item is
 * harmless.
 */
static inline void
list_remove(struct list *item)
{
	umem_assert(item->prev->next == item && item->next->prev == item);
	item->prev->next = item->next;
	item->next->prev = item->prev;
	list_init(item);
}

#define list_first(head, type, member) container_of((head)->next, type, member)

#define list_foreach(item, head)                                               \
	for (struct list *item = (head)->next; item != (head);                 \
	     item = item->next)

#define list_foreach_safe(item, head)                                          \
	for (struct list *item = (head)->next, *item##_next = item->next;      \
	     item != (head); item = item##_next, item##_next = item->next)

#endif
