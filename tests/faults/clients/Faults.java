import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/**
 * Runs one workload with Kafka's Java client until the process is killed: Faults HOST:PORT WORKLOAD. It never checks a
 * result: the test does (tests/faults). A workload of the admin client ends after its call.
 */
class Faults {
    static final String TOPIC = "orders", GROUP = "shop";
    static final TopicPartition PARTITION = new TopicPartition(TOPIC, 0);
    static final ConfigResource CONFIG = new ConfigResource(ConfigResource.Type.TOPIC, TOPIC);
    static final Map<String, Object> base = new HashMap<>();

    public static void main(String[] args) throws Exception {
        base.put("bootstrap.servers", args[0]);
        base.put("client.id", "shop");
        if (args.length > 2) {
            base.put("security.protocol", "SASL_PLAINTEXT");
            base.put("sasl.mechanism", args[2]);
            base.put("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\""
                + args[3] + "\" password=\"" + args[4] + "\";");
        }
        switch (args[1]) {
            case "produce" -> produce(Map.of("enable.idempotence", "false"));
            case "idempotent" -> produce(Map.of());
            case "transactions" -> transactions(true);
            case "aborts" -> transactions(false);
            case "offsets" -> offsets();
            case "consume" -> consume(Map.of("session.timeout.ms", "6000", "heartbeat.interval.ms", "500"));
            case "static" -> consume(Map.of("group.instance.id", "till-1", "session.timeout.ms", "6000", "heartbeat.interval.ms", "500"));
            case "next-generation" -> consume(Map.of("group.protocol", "consumer"));
            case "come-and-go" -> comeAndGo();
            case "read" -> read();
            case "share" -> share();
            default -> administer(args[1]);
        }
    }

    static Map<String, Object> with(Map<String, ?>... overrides) {
        Map<String, Object> all = new HashMap<>(base);
        for (Map<String, ?> settings : overrides) all.putAll(settings);
        return all;
    }

    static Producer<String, String> producer(Map<String, ?> overrides) {
        return new KafkaProducer<>(with(overrides), new StringSerializer(), new StringSerializer());
    }

    static Consumer<String, String> consumer(Map<String, ?>... overrides) {
        Map<String, Object> all = with(overrides);
        all.putIfAbsent("group.id", GROUP);
        all.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    static ProducerRecord<String, String> record(String topic, int number) {
        return new ProducerRecord<>(topic, null, "order " + number);
    }

    static void produce(Map<String, ?> overrides) throws InterruptedException {
        Producer<String, String> producer = producer(overrides);
        for (int number = 0; ; number++) {
            try {
                producer.send(record(TOPIC, number));
            } catch (KafkaException refused) {
                // continue with the next record
            }
            Thread.sleep(50);
        }
    }

    static void fill() {
        Producer<String, String> producer = producer(Map.of("max.block.ms", "1000", "client.id", "filler"));
        for (int number = 0; number < 20; number++) producer.send(record(TOPIC, number));
        producer.close(Duration.ofSeconds(2));
    }

    static Producer<String, String> transactionalProducer() {
        Producer<String, String> producer = producer(Map.of("transactional.id", "checkout"));
        for (int attempt = 0; attempt < 3; attempt++) {
            try {
                producer.initTransactions();
                break;
            } catch (KafkaException refused) {
                // try again
            }
        }
        return producer;
    }

    /** Without commit, aborts three of four transactions: a producer that commits none has a fault of its own (T004). */
    static void transactions(boolean commit) throws InterruptedException {
        Producer<String, String> producer = transactionalProducer();
        for (int number = 1; ; number++) {
            try {
                producer.beginTransaction();
                producer.send(record(TOPIC, number));
                if (commit || number % 4 == 0) producer.commitTransaction();
                else {
                    producer.flush();
                    producer.abortTransaction();
                }
            } catch (KafkaException | IllegalStateException refused) {
                // continue with the next record
            }
            Thread.sleep(200);
        }
    }

    static void offsets() {
        fill();
        Consumer<String, String> consumer = consumer(Map.of("enable.auto.commit", "false"));
        consumer.subscribe(List.of(TOPIC));
        Producer<String, String> producer = transactionalProducer();
        for (int number = 0; ; number++) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(1));
            try {
                producer.beginTransaction();
                producer.send(record("copies", number));
                producer.sendOffsetsToTransaction(Map.of(PARTITION, new OffsetAndMetadata(number)), consumer.groupMetadata());
                producer.commitTransaction();
            } catch (KafkaException | IllegalStateException refused) {
                // continue with the next record
            }
        }
    }

    static void consume(Map<String, ?> overrides) {
        fill();
        Consumer<String, String> consumer = consumer(Map.of("enable.auto.commit", "false"), overrides);
        consumer.subscribe(List.of(TOPIC));
        while (true) {
            try {
                consumer.poll(Duration.ofSeconds(1));
                if (!consumer.assignment().isEmpty()) consumer.commitSync();
            } catch (KafkaException refused) {
                // try again
            }
        }
    }

    static void comeAndGo() {
        fill();
        while (true) {
            try (Consumer<String, String> consumer = consumer()) {
                consumer.subscribe(List.of(TOPIC));
                for (int poll = 0; poll < 3; poll++) consumer.poll(Duration.ofMillis(500));
            } catch (KafkaException refused) {
                // try again
            }
        }
    }

    static void read() {
        fill();
        Consumer<String, String> consumer = consumer(Map.of("enable.auto.commit", "false"));
        consumer.assign(List.of(PARTITION));
        consumer.seek(PARTITION, new OffsetAndMetadata(0, Optional.of(0), ""));
        while (true) {
            try {
                consumer.poll(Duration.ofSeconds(1));
            } catch (KafkaException refused) {
                // try again
            }
        }
    }

    static void share() {
        try (Admin admin = Admin.create(with())) {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, GROUP);
            admin.incrementalAlterConfigs(Map.of(group, List.of(set("share.auto.offset.reset", "earliest")))).all().get();
        } catch (Exception refused) {
            // then, the group begins at the latest offset
        }
        fill();
        Map<String, Object> all = with(Map.of("group.id", GROUP));
        ShareConsumer<String, String> consumer = new KafkaShareConsumer<>(all, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(TOPIC));
        while (true) {
            try {
                consumer.poll(Duration.ofSeconds(1));
                consumer.commitSync();
            } catch (KafkaException refused) {
                // try again
            }
        }
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static final AclBinding ACL = new AclBinding(new ResourcePattern(ResourceType.TOPIC, TOPIC, PatternType.LITERAL),
        new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
    static final ClientQuotaEntity CLIENT = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "shop"));

    static void administer(String api) {
        try (Admin admin = Admin.create(with())) {
            call(admin, api).get();
        } catch (Exception refused) {
            // faults are expected
        }
    }

    static org.apache.kafka.common.KafkaFuture<?> call(Admin admin, String api) {
        return switch (api) {
            case "CreateTopics" -> admin.createTopics(List.of(new NewTopic("invoices", 2, (short) 1))).all();
            case "DeleteTopics" -> admin.deleteTopics(List.of(TOPIC)).all();
            case "CreatePartitions" -> admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(4))).all();
            case "DeleteRecords" -> admin.deleteRecords(Map.of(PARTITION, RecordsToDelete.beforeOffset(0))).all();
            case "DescribeConfigs" -> admin.describeConfigs(List.of(CONFIG)).all();
            case "IncrementalAlterConfigs" -> admin.incrementalAlterConfigs(Map.of(CONFIG, List.of(set("retention.ms", "60000")))).all();
            case "ListGroups" -> admin.listGroups().all();
            case "DescribeGroups" -> admin.describeClassicGroups(List.of(GROUP)).all();
            case "ConsumerGroupDescribe" -> admin.describeConsumerGroups(List.of(GROUP)).all();
            case "ShareGroupDescribe" -> admin.describeShareGroups(List.of(GROUP)).all();
            case "DescribeShareGroupOffsets" -> admin.listShareGroupOffsets(Map.of(GROUP, new ListShareGroupOffsetsSpec())).all();
            case "AlterShareGroupOffsets" -> admin.alterShareGroupOffsets(GROUP, Map.of(PARTITION, 0L)).all();
            case "DeleteShareGroupOffsets" -> admin.deleteShareGroupOffsets(GROUP, Set.of(TOPIC)).all();
            case "DeleteGroups" -> admin.deleteConsumerGroups(List.of(GROUP)).all();
            case "LeaveGroup" -> admin.removeMembersFromConsumerGroup(GROUP, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("till-1")))).all();
            case "OffsetFetch" -> admin.listConsumerGroupOffsets(GROUP).partitionsToOffsetAndMetadata();
            case "OffsetCommit" -> admin.alterConsumerGroupOffsets(GROUP, Map.of(PARTITION, new OffsetAndMetadata(1))).all();
            case "OffsetDelete" -> admin.deleteConsumerGroupOffsets(GROUP, Set.of(PARTITION)).all();
            case "ListOffsets" -> admin.listOffsets(Map.of(PARTITION, OffsetSpec.latest())).all();
            case "DescribeAcls" -> admin.describeAcls(AclBindingFilter.ANY).values();
            case "CreateAcls" -> admin.createAcls(List.of(ACL)).all();
            case "DeleteAcls" -> admin.deleteAcls(List.of(AclBindingFilter.ANY)).all();
            case "DescribeLogDirs" -> admin.describeLogDirs(List.of(1)).allDescriptions();
            case "ListPartitionReassignments" -> admin.listPartitionReassignments().reassignments();
            case "AlterPartitionReassignments" -> admin.alterPartitionReassignments(Map.of(PARTITION, Optional.of(new NewPartitionReassignment(List.of(1))))).all();
            case "DescribeProducers" -> admin.describeProducers(List.of(PARTITION)).all();
            case "DescribeTransactions" -> admin.describeTransactions(List.of("checkout")).all();
            case "ListTransactions" -> admin.listTransactions().all();
            case "DescribeClientQuotas" -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities();
            case "AlterClientQuotas" -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(CLIENT, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9))))).all();
            case "DescribeUserScramCredentials" -> admin.describeUserScramCredentials(List.of("alice")).all();
            case "AlterUserScramCredentials" -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion("alice",
                new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret".getBytes(StandardCharsets.UTF_8)))).all();
            case "ElectLeaders" -> admin.electLeaders(ElectionType.PREFERRED, Set.of(PARTITION)).all();
            case "UpdateFeatures" -> admin.updateFeatures(Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all();
            case "DescribeCluster" -> admin.describeCluster().nodes();
            case "DescribeQuorum" -> admin.describeMetadataQuorum().quorumInfo();
            case "DescribeTopicPartitions" -> admin.describeTopics(List.of(TOPIC)).allTopicNames();
            case "CreateDelegationToken" -> admin.createDelegationToken().delegationToken();
            case "DescribeDelegationToken" -> admin.describeDelegationToken().delegationTokens();
            case "RenewDelegationToken" -> admin.renewDelegationToken("hmac".getBytes(StandardCharsets.UTF_8)).expiryTimestamp();
            case "ExpireDelegationToken" -> admin.expireDelegationToken("hmac".getBytes(StandardCharsets.UTF_8)).expiryTimestamp();
            case "ListConfigResources" -> admin.listConfigResources().all();
            case "UnregisterBroker" -> admin.unregisterBroker(7).all();
            case "AlterReplicaLogDirs" -> admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(TOPIC, 0, 1), "/data")).all();
            default -> throw new IllegalArgumentException(api);
        };
    }
}
