// Prints as JSON what only the classes of a Kafka release know: API keys, header versions, error codes, enums.
// Runs as a single source file: java -cp 'the jars of one release' Facts.java

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

class Facts {
    // table, classes that may have it (they move between releases), the enum's field with the code
    private static final String[][] ENUMS = {
        {"acl_operation", "common.acl.AclOperation", "code"},
        {"acl_permission_type", "common.acl.AclPermissionType", "code"},
        {"alter_config_op", "clients.admin.AlterConfigOp$OpType", "id"},
        {"broker_controlled_shutdown_change", "metadata.BrokerRegistrationInControlledShutdownChange", "value"},
        {"broker_fencing_change", "metadata.BrokerRegistrationFencingChange", "value"},
        {"compression_codec", "common.record.internal.CompressionType common.record.CompressionType", "id"},
        {"config_resource_type", "common.config.ConfigResource$Type", "id"},
        {"config_source", "common.requests.DescribeConfigsResponse$ConfigSource", "id"},
        {"config_type", "common.requests.DescribeConfigsResponse$ConfigType", "id"},
        {"control_record_type", "common.record.internal.ControlRecordType common.record.ControlRecordType", "type"},
        {"coordinator_type", "common.requests.FindCoordinatorRequest$CoordinatorType", "id"},
        {"election_type", "common.ElectionType", "value"},
        {"endpoint_type", "clients.admin.EndpointType", "id"},
        {"feature_upgrade_type", "clients.admin.FeatureUpdate$UpgradeType", "code"},
        {"isolation_level", "common.IsolationLevel", "id"},
        {"leader_recovery_state", "metadata.LeaderRecoveryState", "value"},
        {"metadata_version", "server.common.MetadataVersion", "featureLevel"},
        {"pattern_type", "common.resource.PatternType", "code"},
        {"rebalance_protocol", "clients.consumer.ConsumerPartitionAssignor$RebalanceProtocol", "id"},
        {"resource_type", "common.resource.ResourceType", "code"},
        {"scram_mechanism", "clients.admin.ScramMechanism", "type"},
        {"security_protocol", "common.security.auth.SecurityProtocol", "id"},
        {"share_acknowledge_type", "clients.consumer.AcknowledgeType", "id"},
        {"share_acquire_mode", "clients.consumer.internals.ShareAcquireMode", "id"},
        {"streams_group_status", "common.requests.StreamsGroupHeartbeatResponse$Status", "code"},
        {"streams_topology_description_status", "clients.admin.StreamsGroupTopologyDescriptionStatus", "id"},
        {"timestamp_type", "common.record.TimestampType", "id"},
        {"transaction_log_state", "coordinator.transaction.TransactionState", "id"},
    };

    // table, classes that may have it, regular expression for the names of its constants
    private static final String[][] CONSTANTS = {
        {"consumer_group_member_epoch", "common.requests.ConsumerGroupHeartbeatRequest", ".*_MEMBER_EPOCH"},
        {"fetch_replica_id", "common.requests.FetchRequest",
            "CONSUMER_REPLICA_ID|DEBUGGING_CONSUMER_ID|FUTURE_LOCAL_REPLICA_ID"},
        {"fetch_session_epoch", "common.requests.FetchMetadata", ".*_EPOCH"},
        {"list_offsets_timestamp", "common.requests.ListOffsetsRequest", ".*_TIMESTAMP"},
        {"share_group_member_epoch", "common.requests.ShareGroupHeartbeatRequest", ".*_MEMBER_EPOCH"},
        {"share_session_epoch", "common.requests.ShareRequestMetadata common.requests.ShareFetchMetadata", ".*_EPOCH"},
        {"streams_group_member_epoch", "common.requests.StreamsGroupHeartbeatRequest", ".*_MEMBER_EPOCH"},
    };

    public static void main(String[] args) throws ReflectiveOperationException {
        Map<String, Map<Long, String>> tables = new TreeMap<>();
        for (String[] row : ENUMS) {
            for (Class<?> type : find(row[1])) {
                tables.put(row[0], enumTable(type, row[2]));
            }
        }
        for (String[] row : CONSTANTS) {
            for (Class<?> type : find(row[1])) {
                tables.put(row[0], constantTable(type, row[2]));
            }
        }
        List<ApiKeys> served = List.of(ApiKeys.values()).stream().filter(key -> !key.allVersions().isEmpty()).toList();
        System.out.println("{\"apis\":" + list(served, Facts::api) + ",\"errors\":" + list(List.of(Errors.values()), Facts::error)
            + ",\"enums\":{" + tables.entrySet().stream().map(each -> quoted(each.getKey()) + ":" + table(each.getValue()))
                .collect(Collectors.joining(",")) + "}}");
    }

    private static String api(ApiKeys key) {
        String headers = key.allVersions().stream()
            .map(v -> quoted(v) + ":[" + key.requestHeaderVersion(v) + "," + key.responseHeaderVersion(v) + "]")
            .collect(Collectors.joining(","));
        String listeners = list(List.copyOf(key.messageType.listeners()), each -> quoted(each.name().toLowerCase()));
        return "{\"key\":" + key.id + ",\"name\":" + quoted(key.name) + ",\"min\":" + key.oldestVersion()
            + ",\"max\":" + key.latestVersion() + ",\"stable\":" + key.messageType.highestSupportedVersion(false)
            + ",\"listeners\":" + listeners + ",\"headers\":{" + headers + "}}";
    }

    private static String error(Errors error) {
        return "{\"code\":" + error.code() + ",\"name\":" + quoted(error.name())
            + ",\"retriable\":" + (error.exception() instanceof RetriableException)
            + ",\"invalid_metadata\":" + (error.exception() instanceof InvalidMetadataException) + "}";
    }

    /** The first of the classes that this release has, none if it has none. */
    private static List<Class<?>> find(String names) {
        for (String name : names.split(" ")) {
            try {
                return List.of(Class.forName("org.apache.kafka." + name));
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        return List.of();
    }

    private static Map<Long, String> enumTable(Class<?> type, String codeField) throws ReflectiveOperationException {
        Field code = type.getDeclaredField(codeField);
        code.setAccessible(true);
        Names names = new Names();
        for (Object constant : type.getEnumConstants()) {
            names.add(((Number) code.get(constant)).longValue(), ((Enum<?>) constant).name());
        }
        return names.unique();
    }

    private static Map<Long, String> constantTable(Class<?> type, String pattern) throws ReflectiveOperationException {
        Names names = new Names();
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.getName().matches(pattern)) {
                field.setAccessible(true);
                names.add(((Number) field.get(null)).longValue(), field.getName());
            }
        }
        return names.unique();
    }

    /** A code that two constants share names nothing (metadata versions before KRaft all have level -1). */
    private static class Names {
        private final Map<Long, String> byCode = new TreeMap<>();
        private final Set<Long> shared = new HashSet<>();

        void add(long code, String name) {
            if (byCode.putIfAbsent(code, name) != null) {
                shared.add(code);
            }
        }

        Map<Long, String> unique() {
            byCode.keySet().removeAll(shared);
            return byCode;
        }
    }

    private static String table(Map<Long, String> names) {
        return "{" + names.entrySet().stream().map(each -> quoted(each.getKey()) + ":" + quoted(each.getValue()))
            .collect(Collectors.joining(",")) + "}";
    }

    private static <T> String list(List<T> values, Function<T, String> print) {
        return values.stream().map(print).collect(Collectors.joining(",", "[", "]"));
    }

    // Kafka's names are identifiers: nothing in them needs escaping.
    private static String quoted(Object name) {
        return "\"" + name + "\"";
    }
}
