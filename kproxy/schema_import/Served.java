// Prints as JSON what a broker of a Kafka release says in an ApiVersions response: {"apis": {key: [min, max]},
// "served": {key: [min, max]} where it serves less, "features": {name: [min, max, level]}}.
// By reflection alone, because the classes changed with the years: it runs with every release from 0.10.0 on.
// Runs as a single source file: java -cp 'kafka-clients and kafka-server-common of one release' Served.java LISTENER
// LISTENER is ZK_BROKER or BROKER; releases before 2.8 know no difference.

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

class Served {
    private static final String CLIENTS = "org.apache.kafka.common.";
    private static final String SERVER = "org.apache.kafka.server.common.";

    /** Advertised only with a metrics reporter that takes clients' telemetry (KIP-714), and Kafka comes with none. */
    private static final List<String> WITH_A_PLUGIN = List.of("GET_TELEMETRY_SUBSCRIPTIONS", "PUSH_TELEMETRY");

    public static void main(String[] args) throws ReflectiveOperationException {
        Object listener = listenerType(args[0]);
        Map<Object, List<?>> apis = new LinkedHashMap<>();
        Map<Object, List<?>> served = new LinkedHashMap<>();
        for (Object key : offered(listener)) {
            List<?> versions = versions(key, listener);
            if (versions.isEmpty()) {
                continue;
            }
            apis.put(get(key, "id"), versions);
            if (hasMethod(key.getClass(), "oldestVersion") && !versions.get(0).equals(call(key, "oldestVersion"))) {
                served.put(get(key, "id"), List.of(call(key, "oldestVersion"), versions.get(1)));
            }
        }
        System.out.println(
            "{\"apis\":" + print(apis) + ",\"served\":" + print(served) + ",\"features\":" + print(features()) + "}");
    }

    private static List<Object> offered(Object listener) throws ReflectiveOperationException {
        Class<?> keys = Class.forName(CLIENTS + "protocol.ApiKeys");
        Collection<?> all = listener == null ? Arrays.asList(keys.getEnumConstants())
            : (Collection<?>) keys.getMethod("apisForListener", listener.getClass()).invoke(null, listener);
        List<Object> offered = new ArrayList<>();
        for (Object key : all) {
            if (isEnabled(key) && !WITH_A_PLUGIN.contains(((Enum<?>) key).name())) {
                offered.add(key);
            }
        }
        return offered;
    }

    private static Object listenerType(String name) throws ReflectiveOperationException {
        Optional<Class<?>> type = find(CLIENTS + "message.ApiMessageType$ListenerType");
        return type.isPresent() ? type.get().getField(name).get(null) : null;
    }

    /** 2.7 has the APIs of KRaft, and serves them nowhere. */
    private static boolean isEnabled(Object key) throws ReflectiveOperationException {
        return !has(key.getClass(), "isEnabled") || (boolean) get(key, "isEnabled");
    }

    /** The lowest and the highest version advertised, which is stable; nothing if no version is. */
    private static List<?> versions(Object key, Object listener) throws ReflectiveOperationException {
        Class<?> keys = key.getClass();
        if (hasMethod(keys, "toApiVersionForApiResponse")) {  // 4.0: Produce is advertised from 0 on (KAFKA-18659)
            return range((Optional<?>) keys.getMethod("toApiVersionForApiResponse", boolean.class, listener.getClass())
                .invoke(key, false, listener));
        }
        if (hasMethod(keys, "toApiVersion")) {  // 3.5: a version may be unstable
            return range((Optional<?>) keys.getMethod("toApiVersion", boolean.class).invoke(key, false));
        }
        if (hasMethod(keys, "latestVersion")) {  // 0.11
            return List.of(call(key, "oldestVersion"), call(key, "latestVersion"));
        }
        return List.of(fromTable("MIN_VERSIONS", key), fromTable("CURR_VERSION", key));
    }

    private static Object fromTable(String table, Object key) throws ReflectiveOperationException {
        Field versions = Class.forName(CLIENTS + "protocol.Protocol").getDeclaredField(table);
        versions.setAccessible(true);
        return Array.get(versions.get(null), ((Number) get(key, "id")).intValue());
    }

    private static List<?> range(Optional<?> version) throws ReflectiveOperationException {
        return version.isEmpty() ? List.of()
            : List.of(call(version.get(), "minVersion"), call(version.get(), "maxVersion"));
    }

    /** What a broker supports, and the level that is final after its storage was formatted with no more said. */
    private static Map<Object, List<?>> features() throws ReflectiveOperationException {
        Map<Object, List<?>> found = new LinkedHashMap<>();
        Optional<Class<?>> type = find(SERVER + "MetadataVersion");
        if (type.isEmpty()) {  // before 3.3
            return found;
        }
        Class<?> versions = type.get();
        String minimum = has(versions, "MINIMUM_VERSION") ? "MINIMUM_VERSION" : "MINIMUM_KRAFT_VERSION";
        String latestOf = hasMethod(versions, "latestProduction") ? "latestProduction" : "latest";
        Object lowest = versions.getField(minimum).get(null);
        Object newest = versions.getMethod(latestOf).invoke(null);
        Object level = call(newest, "featureLevel");
        found.put("metadata.version", List.of(call(lowest, "featureLevel"), level, level));
        for (Object feature : others()) {
            Object latest = call(feature, "latestProduction");
            if (((Number) latest).intValue() > 0) {
                Class<?> features = feature.getClass();
                String initial = hasMethod(features, "defaultLevel") ? "defaultLevel" : "defaultValue";
                Object initially = features.getMethod(initial, versions).invoke(feature, newest);
                found.put(call(feature, "featureName"), List.of(call(feature, "minimumProduction"), latest, initially));
            }
        }
        return found;
    }

    private static Collection<?> others() throws ReflectiveOperationException {
        for (String name : List.of("Feature", "Features")) {
            Optional<Class<?>> type = find(SERVER + name);
            if (type.isPresent() && has(type.get(), "PRODUCTION_FEATURES")) {
                return (Collection<?>) type.get().getField("PRODUCTION_FEATURES").get(null);
            }
        }
        return new ArrayList<>();
    }

    private static Optional<Class<?>> find(String name) {
        try {
            return Optional.of(Class.forName(name));
        } catch (ClassNotFoundException e) {
            return Optional.empty();
        }
    }

    private static boolean has(Class<?> type, String field) {
        return Arrays.stream(type.getFields()).anyMatch(each -> each.getName().equals(field));
    }

    private static boolean hasMethod(Class<?> type, String method) {
        return Arrays.stream(type.getMethods()).anyMatch(each -> each.getName().equals(method));
    }

    private static Object get(Object object, String field) throws ReflectiveOperationException {
        return object.getClass().getField(field).get(object);
    }

    private static Object call(Object object, String method) throws ReflectiveOperationException {
        return object.getClass().getMethod(method).invoke(object);
    }

    private static String print(Map<Object, List<?>> ranges) {
        return ranges.entrySet().stream().map(each -> "\"" + each.getKey() + "\":" + each.getValue())
            .collect(Collectors.joining(",", "{", "}"));
    }
}
