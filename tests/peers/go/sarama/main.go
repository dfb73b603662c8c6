// Sarama: every codec, acks, idempotence, a transaction that commits and one that does not; a group that grows; admin.
package main

import (
	"context"
	"time"

	"peers/run"

	"github.com/IBM/sarama"
)

var (
	bootstrap, topic = run.Arguments()
	report           run.Report
)

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = "sarama"
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	return config
}

func main() {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap}, config())
	run.Must("admin", err)
	run.Must("create topic", admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: run.Partitions, ReplicationFactor: 1}, false))
	for _, codec := range []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	} {
		compressed := config()
		compressed.Producer.Compression = codec
		produce(compressed)
	}
	for _, acks := range []sarama.RequiredAcks{sarama.NoResponse, sarama.WaitForLocal} {
		hasty := config()
		hasty.Producer.RequiredAcks = acks
		produce(hasty)
	}
	produce(idempotent())
	transactions()
	consume()
	configs, err := admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	run.Must("describe configs", err)
	report.Configs = len(configs)
	run.Must("delete topic", admin.DeleteTopic(topic))
	run.Must("close", admin.Close())
	report.Print()
}

func idempotent() *sarama.Config {
	config := config()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	return config
}

func send(producer sarama.SyncProducer) {
	var messages []*sarama.ProducerMessage
	for i := report.Produced; i < report.Produced+run.Messages; i++ {
		message := &sarama.ProducerMessage{Topic: topic, Headers: []sarama.RecordHeader{
			{Key: []byte("trace"), Value: []byte("00-4bf92f35")}, {Key: []byte("empty"), Value: []byte{}}, {Key: []byte("null")},
		}}
		if key := run.Key(i); key != nil {
			message.Key = sarama.ByteEncoder(key)
		}
		if value := run.Value(i); value != nil {
			message.Value = sarama.ByteEncoder(value)
		}
		messages = append(messages, message)
	}
	run.Must("produce", producer.SendMessages(messages))
}

func produce(config *sarama.Config) {
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	run.Must("producer", err)
	defer producer.Close()
	send(producer)
	report.Produced += run.Messages
}

func transactions() {
	config := idempotent()
	config.Producer.Transaction.ID = "tx-" + topic
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	run.Must("producer", err)
	defer producer.Close()
	for _, end := range []func() error{producer.CommitTxn, producer.AbortTxn} {
		run.Must("begin", producer.BeginTxn())
		send(producer)
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: 1}}}
		run.Must("add offsets", producer.AddOffsetsToTxn(offsets, "txg-"+topic))
		run.Must("end", end())
	}
	report.Produced += run.Messages
}

func consume() {
	group := run.NewGroup()
	stopFirst := member(group, "a")
	run.Wait("the first member reads all", func() bool { return group.Total() >= report.Produced })
	stopSecond := member(group, "b")
	run.Wait("two members share", func() bool { return group.Members() == 2 })
	stopSecond()
	run.Wait("the first has all again", func() bool { return group.Members() == 1 })
	stopFirst()
	report.Consumed, report.Members = group.Total(), 2
}

func member(group *run.Group, name string) (stop func()) {
	consumer, err := sarama.NewConsumerGroup([]string{bootstrap}, "group-"+topic, config())
	run.Must("consumer", err)
	polling, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for polling.Err() == nil {
			run.Must("consume", consumer.Consume(polling, []string{topic}, handler{group, name}))
		}
	}()
	return func() {
		cancel()
		<-done
		run.Must("close", consumer.Close())
		group.Owns(name, 0, 0)
	}
}

type handler struct {
	group *run.Group
	name  string
}

func (h handler) Setup(session sarama.ConsumerGroupSession) error {
	h.group.Owns(h.name, 0, len(session.Claims()[topic]))
	return nil
}

func (h handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		session.MarkMessage(message, "read")
		h.group.Consumed(message.Partition, message.Offset)
	}
	session.Commit()
	return nil
}
