// Appends each request to a Redis stream: `enqueue ADDRESS SOCKET`. The reply leaves when Redis has the
// record.
package main

import (
	"context"
	"os"

	"bench/score"

	"github.com/redis/go-redis/v9"
)

func main() {
	queue := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Args[2], PoolSize: 64})
	score.Serve(os.Args[1], func(ctx context.Context, record *score.Record) error {
		values := []any{
			"at", record.At.UnixMicro(), "client", record.Client.String(), "path", record.Path,
			"status", record.Status, "took_us", record.TookUs, "score", record.Score,
		}
		return queue.XAdd(ctx, &redis.XAddArgs{Stream: "scores", Values: values}).Err()
	})
}
