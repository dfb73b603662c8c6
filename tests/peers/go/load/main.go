// Small requests of franz-go for some seconds: load HOST:PORT TOPIC SECONDS. Four producers wait for each batch, one
// of them in transactions; a classic group of two and a KIP-848 group commit what they read.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"peers/run"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	bootstrap, topic = run.Arguments()
	ctx              = context.Background()
	end              time.Time
	assigned         sync.WaitGroup // producers wait for it, so that nobody begins with a backlog
)

func client(name string, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ClientID(name)}, options...)...)
	run.Must("client", err)
	return made
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	run.Must("seconds", err)
	admin := kadm.NewClient(client("setup"))
	_, err = admin.CreateTopic(ctx, run.Partitions, 1, nil, topic)
	run.Must("create topic", err)
	admin.Close()
	end = time.Now().Add(time.Duration(seconds * float64(time.Second)))
	assigned.Add(3)
	var all sync.WaitGroup
	start := func(work func()) {
		all.Add(1)
		go func() { defer all.Done(); work() }()
	}
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		start(func() { produce(client(fmt.Sprintf("producer-%d", i), kgo.ProducerBatchCompression(codec))) })
	}
	start(func() { transactions(client("transactional", kgo.TransactionalID("tx-"+topic))) })
	start(func() { consume("classic", "mail-1") })
	start(func() { consume("classic", "mail-2") })
	start(func() { consume("consumer", "stats", kgo.ServerSideBalancer()) })
	all.Wait()
}

func batch(number int) []*kgo.Record {
	var records []*kgo.Record
	for i := number; i <= number+number%5; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: run.Key(i), Value: run.Value(i)})
	}
	return records
}

func produce(producer *kgo.Client) {
	defer producer.Close()
	assigned.Wait()
	for i := 0; time.Now().Before(end); i++ {
		run.Must("produce", producer.ProduceSync(ctx, batch(i)...).FirstErr())
	}
}

func transactions(producer *kgo.Client) {
	defer producer.Close()
	assigned.Wait()
	for i := 0; time.Now().Before(end); i++ {
		run.Must("begin", producer.BeginTransaction())
		run.Must("produce", producer.ProduceSync(ctx, batch(i)...).FirstErr())
		run.Must("end", producer.EndTransaction(ctx, i%10 != 0))
	}
}

func consume(group, name string, options ...kgo.Opt) {
	var first sync.Once
	consumer := client(name, append([]kgo.Opt{
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) { first.Do(assigned.Done) }),
		kgo.ConsumerGroup(group + "-" + topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50 * time.Millisecond),
		kgo.HeartbeatInterval(300 * time.Millisecond),
	}, options...)...)
	defer consumer.Close()
	for polls := 0; time.Now().Before(end); polls++ {
		polling, cancel := context.WithDeadline(ctx, end)
		consumer.PollFetches(polling)
		cancel()
		if polls%20 == 0 {
			_ = consumer.CommitUncommittedOffsets(ctx) // fails in a rebalance
		}
	}
}
