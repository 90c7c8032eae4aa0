/*
 * once.c
 *		Instead of libFuzzer: tries each file that is named once.  For tests, which see
 *		so that what is fuzzed still compiles, links and takes the inputs that are kept.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int			LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
	{
		FILE	   *file = fopen(argv[i], "rb");
		uint8_t    *data = malloc(1 << 20);
		size_t		size;

		if (file == NULL || data == NULL)
			return 1;
		size = fread(data, 1, 1 << 20, file);
		fclose(file);
		if (LLVMFuzzerTestOneInput(data, size) != 0)
			return 1;
		free(data);
	}
	printf("%d inputs\n", argc - 1);
	return 0;
}
