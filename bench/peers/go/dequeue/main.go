// Reads records from a Redis stream and inserts each with one statement, up to 256 at a time: `dequeue SOCKET
// DATABASE`. A record leaves the stream after its row is committed. A crash between the two steps would
// insert it twice.
package main

import (
	"context"
	"errors"
	"log"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"bench/score"

	"github.com/redis/go-redis/v9"
)

const (
	group   = "rows"
	atOnce  = 256
	waitFor = 100 * time.Millisecond
)

func main() {
	ctx := context.Background()
	queue := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Args[1]})
	rows := score.Open(os.Args[2])
	check(queue.XGroupCreateMkStream(ctx, "scores", group, "0").Err())
	ended := score.Ended()
	for len(ended) == 0 {
		streams, err := queue.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: "one", Streams: []string{"scores", ">"}, Count: atOnce, Block: waitFor,
		}).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		check(err)
		move(ctx, queue, rows, streams[0].Messages)
	}
}

func move(ctx context.Context, queue *redis.Client, rows score.Rows, messages []redis.XMessage) {
	ids := make([]string, len(messages))
	var inserts sync.WaitGroup
	for i, message := range messages {
		ids[i] = message.ID
		inserts.Add(1)
		go func() {
			defer inserts.Done()
			check(rows.Insert(ctx, record(message.Values)))
		}()
	}
	inserts.Wait()
	_, err := queue.Pipelined(ctx, func(both redis.Pipeliner) error {
		both.XAck(ctx, "scores", group, ids...)
		both.XDel(ctx, "scores", ids...)
		return nil
	})
	check(err)
}

func record(values map[string]any) *score.Record {
	text := func(name string) string { return values[name].(string) }
	number := func(name string) int64 {
		value, err := strconv.ParseInt(text(name), 10, 64)
		check(err)
		return value
	}
	points, err := strconv.ParseFloat(text("score"), 64)
	check(err)
	client, err := netip.ParseAddr(text("client"))
	check(err)
	return &score.Record{
		At: time.UnixMicro(number("at")), Client: client, Path: text("path"),
		Status: number("status"), TookUs: number("took_us"), Score: points,
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
