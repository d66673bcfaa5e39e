// The program's entry; commands.h has the rest.
#include <string>
#include <vector>

#include "cli/commands.h"
#include "commit.h"

int main(int count, char** words) {
  const std::vector<std::string> arguments(words + (count > 0 ? 1 : 0), words + count);
  return penstock::cli::run(arguments, PENSTOCK_COMMIT);
}
