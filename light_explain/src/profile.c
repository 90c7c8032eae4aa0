#include "postgres.h"
#include "light_explain.h"
Size light_profile_size(void) { return 0; }
void light_profile_startup(void) {}
void light_profile_store(LightQuery *query) {}
