#include "postgres.h"
#include "light_explain.h"
Size light_progress_size(void) { return 0; }
void light_progress_startup(void) {}
LightRecord *light_progress_claim(LightQuery *query, int nrecords) { return NULL; }
void light_progress_publish(LightQuery *query) {}
void light_progress_release(LightQuery *query) {}
