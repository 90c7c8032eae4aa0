/*
 * light_test_no_memfd.c
 *	  Preloaded into the server's processes (LD_PRELOAD): a system without
 *	  memfd_create(), where no process can map its cell over its stack's top.
 */
#include <errno.h>

/* the server's flags hide symbols since 16 */
int			memfd_create(const char *name, unsigned int flags) __attribute__((visibility("default")));

int
memfd_create(const char *name, unsigned int flags)
{
	(void) name;
	(void) flags;
	errno = ENOSYS;
	return -1;
}
