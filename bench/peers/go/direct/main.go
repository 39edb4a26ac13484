// An INSERT for each request, on a connection of a pool: `direct ADDRESS DATABASE`. The reply leaves when the
// row is committed.
package main

import (
	"os"

	"bench/score"
)

func main() {
	score.Serve(os.Args[1], score.Open(os.Args[2]).Insert)
}
