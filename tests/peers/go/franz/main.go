// franz-go: every codec, acks, a transaction that commits and one that does not; a group that grows; admin.
package main

import (
	"context"
	"time"

	"peers/run"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	ctx, _           = context.WithTimeout(context.Background(), 170*time.Second)
	bootstrap, topic = run.Arguments()
	report           run.Report
)

func client(options ...kgo.Opt) *kgo.Client {
	base := []kgo.Opt{kgo.SeedBrokers(bootstrap), kgo.ClientID("franz"), kgo.MetadataMinAge(100 * time.Millisecond)}
	made, err := kgo.NewClient(append(base, options...)...)
	run.Must("client", err)
	return made
}

func main() {
	admin := kadm.NewClient(client())
	_, err := admin.CreateTopic(ctx, run.Partitions, 1, nil, topic)
	run.Must("create topic", err)
	for _, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		produce(client(kgo.ProducerBatchCompression(codec)))
	}
	for _, acks := range []kgo.Acks{kgo.NoAck(), kgo.LeaderAck()} {
		produce(client(kgo.DisableIdempotentWrite(), kgo.RequiredAcks(acks)))
	}
	transactions()
	consume("classic")
	consume("consumer", kgo.ServerSideBalancer()) // KIP-848
	configs, err := admin.DescribeTopicConfigs(ctx, topic)
	run.Must("describe configs", err)
	report.Configs = len(configs[0].Configs)
	deleted, err := admin.DeleteTopics(ctx, topic)
	run.Must("delete topic", err)
	run.Must("delete topic", deleted.Error())
	admin.Close()
	report.Print()
}

func send(producer *kgo.Client) {
	var records []*kgo.Record
	for i := report.Produced; i < report.Produced+run.Messages; i++ {
		headers := []kgo.RecordHeader{{Key: "trace", Value: []byte("00-4bf92f35")}, {Key: "empty", Value: []byte{}}, {Key: "null"}}
		records = append(records, &kgo.Record{Topic: topic, Key: run.Key(i), Value: run.Value(i), Headers: headers})
	}
	run.Must("produce", producer.ProduceSync(ctx, records...).FirstErr())
}

func produce(producer *kgo.Client) {
	defer producer.Close()
	send(producer)
	report.Produced += run.Messages
}

func transactions() {
	producer := client(kgo.TransactionalID("tx-" + topic))
	defer producer.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		run.Must("begin", producer.BeginTransaction())
		send(producer)
		run.Must("end", producer.EndTransaction(ctx, end))
	}
	report.Produced += run.Messages
}

func consume(protocol string, options ...kgo.Opt) {
	group := run.NewGroup()
	stopFirst := member(group, "a", protocol, options)
	run.Wait("the first member reads all", func() bool { return group.Total() >= report.Produced })
	stopSecond := member(group, "b", protocol, options)
	run.Wait("two members share", func() bool { return group.Members() == 2 })
	stopSecond()
	run.Wait("the first has all again", func() bool { return group.Members() == 1 })
	stopFirst()
	report.Consumed, report.Members = group.Total(), 2
}

func member(group *run.Group, name, protocol string, options []kgo.Opt) (stop func()) {
	owns := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			group.Owns(name, -1, sign*len(partitions[topic]))
		}
	}
	consumer := client(append([]kgo.Opt{
		kgo.ConsumerGroup(protocol + "-" + topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.OnPartitionsAssigned(owns(1)), kgo.OnPartitionsRevoked(owns(-1)),
	}, options...)...)
	polling, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for polling.Err() == nil {
			fetches := consumer.PollFetches(polling)
			if fetches.NumRecords() > 0 {
				run.Must("commit", consumer.CommitUncommittedOffsets(ctx))
				fetches.EachRecord(func(record *kgo.Record) { group.Consumed(record.Partition, record.Offset) })
			}
		}
	}()
	return func() { cancel(); <-done; consumer.Close() }
}
