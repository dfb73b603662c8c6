// franz-go does one thing until it is killed: faults HOST:PORT WORKLOAD. It never checks a result, which is the
// subject of the test (tests/faults). A workload of the admin client ends after its call.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	topic = "orders"
	group = "shop"
)

var ctx = context.Background()

func client(options ...kgo.Opt) *kgo.Client {
	base := []kgo.Opt{kgo.SeedBrokers(os.Args[1]), kgo.ClientID("shop"), kgo.MetadataMinAge(time.Second)}
	if len(os.Args) > 3 {
		base = append(base, kgo.SASL(plain.Auth{User: os.Args[4], Pass: os.Args[5]}.AsMechanism()))
	}
	made, err := kgo.NewClient(append(base, options...)...)
	if err != nil {
		panic(err)
	}
	return made
}

func record(number int, to string) *kgo.Record {
	return &kgo.Record{Topic: to, Partition: int32(number % 2), Value: []byte(fmt.Sprintf("order %d", number))}
}

func fill() {
	producer := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	filling, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for number := range 20 {
		producer.Produce(filling, record(number, topic), nil)
	}
	producer.Flush(filling)
}

func produce(options ...kgo.Opt) {
	producer := client(options...)
	for number := 0; ; number++ {
		producer.Produce(ctx, record(number, topic), nil)
		time.Sleep(50 * time.Millisecond)
	}
}

// Every fourth is committed: a producer that commits none has a fault of its own (T004).
func transactions(end kgo.TransactionEndTry) {
	producer := client(kgo.TransactionalID("checkout"))
	for number := 1; ; number++ {
		if producer.BeginTransaction() == nil {
			producer.ProduceSync(ctx, record(number, topic))
			producer.EndTransaction(ctx, end || kgo.TransactionEndTry(number%4 == 0))
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func offsets() {
	fill()
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(os.Args[1]), kgo.ClientID("shop"), kgo.TransactionalID("checkout"),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		panic(err)
	}
	for number := 0; ; number++ {
		session.PollFetches(ctx)
		if session.Begin() == nil {
			session.ProduceSync(ctx, record(number, "copies"))
			session.End(ctx, kgo.TryCommit)
		}
	}
}

func consume(options ...kgo.Opt) {
	fill()
	consumer := client(append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(500 * time.Millisecond), kgo.SessionTimeout(6 * time.Second), kgo.DisableAutoCommit(),
	}, options...)...)
	for {
		consumer.PollFetches(ctx)
		committing, cancel := context.WithTimeout(ctx, 30*time.Second)
		consumer.CommitUncommittedOffsets(committing)
		cancel()
	}
}

func comeAndGo() {
	fill()
	for {
		consumer := client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		polling, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		for polling.Err() == nil {
			consumer.PollFetches(polling)
		}
		cancel()
		consumer.Close()
	}
}

func read() {
	fill()
	from := kgo.NewOffset().At(0).WithEpoch(0)
	consumer := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: from, 1: from}}))
	for {
		consumer.PollFetches(ctx)
	}
}

func topics() kadm.TopicsSet {
	set := kadm.TopicsSet{}
	set.Add(topic, 0, 1)
	return set
}

func acls() *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(topic).Allow("User:alice").AllowHosts("*").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
}

// calls of the admin client, by the API that they are about.
var calls = map[string]func(*kadm.Client){
	"CreateTopics":     func(a *kadm.Client) { a.CreateTopic(ctx, 2, 1, nil, "invoices") },
	"DeleteTopics":     func(a *kadm.Client) { a.DeleteTopics(ctx, topic) },
	"CreatePartitions": func(a *kadm.Client) { a.UpdatePartitions(ctx, 4, topic) },
	"DeleteRecords": func(a *kadm.Client) {
		before := kadm.Offsets{}
		before.AddOffset(topic, 0, 0, -1)
		a.DeleteRecords(ctx, before)
	},
	"DescribeConfigs": func(a *kadm.Client) { a.DescribeTopicConfigs(ctx, topic) },
	"AlterConfigs": func(a *kadm.Client) {
		value := "60000"
		a.AlterTopicConfigsState(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, topic)
	},
	"IncrementalAlterConfigs": func(a *kadm.Client) {
		value := "60000"
		a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, topic)
	},
	"ListGroups":     func(a *kadm.Client) { a.ListGroups(ctx) },
	"DescribeGroups": func(a *kadm.Client) { a.DescribeGroups(ctx, group) },
	"DeleteGroups":   func(a *kadm.Client) { a.DeleteGroup(ctx, group) },
	"LeaveGroup":     func(a *kadm.Client) { a.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("till-1")) },
	"OffsetFetch":    func(a *kadm.Client) { a.FetchOffsets(ctx, group) },
	"OffsetCommit": func(a *kadm.Client) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(topic, 0, 1, -1)
		a.CommitOffsets(ctx, group, offsets)
	},
	"OffsetDelete": func(a *kadm.Client) { a.DeleteOffsets(ctx, group, topics()) },
	"ListOffsets":  func(a *kadm.Client) { a.ListEndOffsets(ctx, topic) },
	"OffsetForLeaderEpoch": func(a *kadm.Client) {
		request := kadm.OffsetForLeaderEpochRequest{}
		request.Add(topic, 0, 0)
		a.OffsetForLeaderEpoch(ctx, request)
	},
	"DescribeAcls":               func(a *kadm.Client) { a.DescribeACLs(ctx, acls()) },
	"CreateAcls":                 func(a *kadm.Client) { a.CreateACLs(ctx, acls()) },
	"DeleteAcls":                 func(a *kadm.Client) { a.DeleteACLs(ctx, acls()) },
	"DescribeLogDirs":            func(a *kadm.Client) { a.DescribeAllLogDirs(ctx, topics()) },
	"AlterReplicaLogDirs":        func(a *kadm.Client) { a.AlterAllReplicaLogDirs(ctx, kadm.AlterReplicaLogDirsReq{"/data": topics()}) },
	"ListPartitionReassignments": func(a *kadm.Client) { a.ListPartitionReassignments(ctx, topics()) },
	"AlterPartitionReassignments": func(a *kadm.Client) {
		request := kadm.AlterPartitionAssignmentsReq{}
		request.Assign(topic, 0, []int32{1})
		a.AlterPartitionAssignments(ctx, request)
	},
	"DescribeProducers":    func(a *kadm.Client) { a.DescribeProducers(ctx, topics()) },
	"DescribeTransactions": func(a *kadm.Client) { a.DescribeTransactions(ctx, "checkout") },
	"ListTransactions":     func(a *kadm.Client) { a.ListTransactions(ctx, nil, nil) },
	"DescribeClientQuotas": func(a *kadm.Client) { a.DescribeClientQuotas(ctx, false, nil) },
	"AlterClientQuotas": func(a *kadm.Client) {
		name := "shop"
		a.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &name}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1e9}},
		}})
	},
	"DescribeUserScramCredentials": func(a *kadm.Client) { a.DescribeUserSCRAMs(ctx, "alice") },
	"AlterUserScramCredentials": func(a *kadm.Client) {
		a.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "alice", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"}})
	},
	"ElectLeaders": func(a *kadm.Client) { a.ElectLeaders(ctx, kadm.ElectPreferredReplica, topics()) },
	"UpdateFeatures": func(a *kadm.Client) {
		request := kmsg.NewPtrUpdateFeaturesRequest()
		update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		update.Feature, update.MaxVersionLevel = "group.version", 1
		request.FeatureUpdates = append(request.FeatureUpdates, update)
		request.RequestWith(ctx, seed)
	},
	"DescribeCluster":         func(*kadm.Client) { kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, seed) },
	"DescribeQuorum":          describeQuorum,
	"CreateDelegationToken":   func(a *kadm.Client) { a.CreateDelegationToken(ctx, kadm.CreateDelegationToken{}) },
	"DescribeDelegationToken": func(a *kadm.Client) { a.DescribeDelegationTokens(ctx) },
	"RenewDelegationToken":    func(a *kadm.Client) { a.RenewDelegationToken(ctx, []byte("hmac"), time.Hour) },
	"ExpireDelegationToken":   func(a *kadm.Client) { a.ExpireDelegationToken(ctx, []byte("hmac"), time.Hour) },
	"UnregisterBroker": func(*kadm.Client) {
		request := kmsg.NewPtrUnregisterBrokerRequest()
		request.BrokerID = 7
		request.RequestWith(ctx, seed)
	},
	"ConsumerGroupDescribe": func(*kadm.Client) {
		request := kmsg.NewPtrConsumerGroupDescribeRequest()
		request.Groups = []string{group}
		request.RequestWith(ctx, seed)
	},
}

func describeQuorum(*kadm.Client) {
	request := kmsg.NewPtrDescribeQuorumRequest()
	of, partition := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	of.Topic, of.Partitions = "__cluster_metadata", append(of.Partitions, partition)
	request.Topics = append(request.Topics, of)
	request.RequestWith(ctx, seed)
}

var seed *kgo.Client

func main() {
	switch workload := os.Args[2]; workload {
	case "produce":
		produce(kgo.DisableIdempotentWrite())
	case "idempotent":
		produce()
	case "transactions":
		transactions(kgo.TryCommit)
	case "aborts":
		transactions(kgo.TryAbort)
	case "offsets":
		offsets()
	case "consume":
		consume()
	case "static":
		consume(kgo.InstanceID("till-1"))
	case "next-generation":
		consume(kgo.ServerSideBalancer())
	case "come-and-go":
		comeAndGo()
	case "read":
		read()
	default:
		seed = client()
		calls[workload](kadm.NewClient(seed))
	}
}
