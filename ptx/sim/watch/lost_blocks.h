// Memory of malloc that nobody can free any more: the launch that allocated it has ended, and neither a buffer nor a
// variable, nor other memory of the heap that one of them leads to, has its address.
#pragma once

namespace ptx::sim {

struct Launch;

// One note for each line that allocated such memory, if the launch's checks ask for it.
void report_lost_blocks(Launch& launch);

}  // namespace ptx::sim
