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
list_add_head(struct list *head, struct list *item)
{
	umem_assert(head->next->prev == head);
	item->prev = head;
	item->next = head->next;
	head->next->prev = item;
	head->next = item;
}

static inline void
list_add_tail(struct list *head, struct list *item)
{
	list_add_head(head->prev, item);
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

/*
 * The links of an item, or the head in place of one.  The head is in no item,
 * and may not have the alignment of one, so nothing accesses it as an item.
 */
#define list_links(item, type, member)                                         \
	((struct list *)(void *)((char *)(item) + offsetof(type, member)))

/* NOLINTBEGIN(bugprone-macro-parentheses): item is declared, type is a type. */
#define list_foreach(item, head, type, member)                                 \
	for (type *item = list_first(head, type, member);                      \
	     list_links(item, type, member) != (head);                         \
	     item = list_first(list_links(item, type, member), type, member))

/* The body may remove the item. */
#define list_foreach_safe(item, head, type, member)                            \
	for (type *item = list_first(head, type, member),                      \
		  *item##_next = list_first(                                   \
		      list_links(item, type, member), type, member);           \
	     list_links(item, type, member) != (head); item = item##_next,     \
		  item##_next = list_first(                                    \
		      list_links(item, type, member), type, member))
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
