// kafka-go: every codec, acks, a transaction that is aborted (it cannot produce in one); a group that grows; admin.
package main

import (
	"context"
	"errors"
	"time"

	"peers/run"

	kafka "github.com/segmentio/kafka-go"
)

var (
	ctx, _           = context.WithTimeout(context.Background(), 170*time.Second)
	bootstrap, topic = run.Arguments()
	transport        = &kafka.Transport{ClientID: "kafka-go"}
	client           = &kafka.Client{Addr: kafka.TCP(bootstrap), Transport: transport}
	report           run.Report
)

func main() {
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: run.Partitions, ReplicationFactor: 1},
	}})
	run.Must("create topic", err)
	run.Must("create topic", created.Errors[topic])
	run.Wait("the topic is there", func() bool {
		metadata, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		run.Must("metadata", err)
		return len(metadata.Topics[0].Partitions) == run.Partitions
	})
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		produce(kafka.RequireAll, codec)
	}
	produce(kafka.RequireNone, 0)
	produce(kafka.RequireOne, 0)
	transaction()
	consume()
	resource := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	described, err := client.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{resource},
	})
	run.Must("describe configs", err)
	report.Configs = len(described.Resources[0].ConfigEntries)
	deleted, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	run.Must("delete topic", err)
	run.Must("delete topic", deleted.Errors[topic])
	report.Print()
}

func produce(acks kafka.RequiredAcks, codec kafka.Compression) {
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap), Topic: topic, Transport: transport, RequiredAcks: acks, Compression: codec,
		BatchTimeout: 10 * time.Millisecond, Balancer: &kafka.RoundRobin{},
	}
	defer writer.Close()
	var messages []kafka.Message
	for i := report.Produced; i < report.Produced+run.Messages; i++ {
		headers := []kafka.Header{{Key: "trace", Value: []byte("00-4bf92f35")}, {Key: "empty", Value: []byte{}}, {Key: "null"}}
		messages = append(messages, kafka.Message{Key: run.Key(i), Value: run.Value(i), Headers: headers})
	}
	run.Must("produce", writer.WriteMessages(ctx, messages...))
	report.Produced += run.Messages
}

func transaction() {
	id := "tx-" + topic
	var producer *kafka.ProducerSession
	run.Wait("a producer id", func() bool { // a fresh Kafka makes its topic for them first, and kafka-go does not retry
		made, err := client.InitProducerID(ctx, &kafka.InitProducerIDRequest{
			TransactionalID: id, TransactionTimeoutMs: 30000, ProducerID: -1, ProducerEpoch: -1,
		})
		run.Must("init producer id", err)
		if errors.Is(made.Error, kafka.NotCoordinatorForGroup) || errors.Is(made.Error, kafka.GroupCoordinatorNotAvailable) {
			return false
		}
		run.Must("init producer id", made.Error)
		producer = made.Producer
		return true
	})
	added, err := client.AddPartitionsToTxn(ctx, &kafka.AddPartitionsToTxnRequest{
		TransactionalID: id, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
		Topics: map[string][]kafka.AddPartitionToTxn{topic: {{Partition: 0}, {Partition: 1}}},
	})
	run.Must("add partitions", err)
	for _, partition := range added.Topics[topic] {
		run.Must("add partitions", partition.Error)
	}
	ended, err := client.EndTxn(ctx, &kafka.EndTxnRequest{
		TransactionalID: id, ProducerID: producer.ProducerID, ProducerEpoch: producer.ProducerEpoch,
	})
	run.Must("end", err)
	run.Must("end", ended.Error)
}

func consume() {
	group := run.NewGroup()
	stopFirst := member(group)
	run.Wait("the first member reads all", func() bool { return group.Total() >= report.Produced })
	stopSecond := member(group)
	run.Wait("two members share", func() bool { return members() == 2 })
	stopSecond()
	run.Wait("the first is alone again", func() bool { return members() == 1 })
	stopFirst()
	report.Consumed, report.Members = group.Total(), 2
}

func member(group *run.Group) (stop func()) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{bootstrap}, GroupID: "group-" + topic, Topic: topic, MinBytes: 1, MaxBytes: 1 << 20,
		Dialer: &kafka.Dialer{ClientID: "kafka-go"}, MaxWait: 100 * time.Millisecond, HeartbeatInterval: 300 * time.Millisecond,
		IsolationLevel: kafka.ReadCommitted,
	})
	polling, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			message, err := reader.FetchMessage(polling)
			if err != nil {
				return
			}
			run.Must("commit", reader.CommitMessages(ctx, message))
			if len(message.Headers) > 0 { // it hands out the markers of transactions too: they have none
				group.Consumed(int32(message.Partition), message.Offset)
			}
		}
	}()
	return func() { cancel(); <-done; run.Must("close", reader.Close()) }
}

// members counts those of a stable group that were given partitions.
func members() int {
	described, err := client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{"group-" + topic}})
	run.Must("describe group", err)
	count := 0
	for _, member := range described.Groups[0].Members {
		if described.Groups[0].GroupState == "Stable" && len(member.MemberAssignments.Topics) > 0 {
			count++
		}
	}
	return count
}
