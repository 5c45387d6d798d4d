import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.ParserConfig;
import com.alibaba.fastjson.util.TypeUtils;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Proxy;
import java.lang.reflect.Type;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.TopicMessageQueueChangeListener;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Converts JSON values to arguments of the clients' methods, and their results to JSON values.
 *
 * <p>A key names the kind of an object: {@code body} a message, {@code queueId} a queue, {@code sql} a selector, {@code
 * accessKey} a signing hook, {@code callback} any interface with onSuccess, {@code select} a queue selector, by the
 * name of its class or, with {@code true}, one that takes its argument as index, {@code report} a listener whose calls
 * become events of the object named. An allocation strategy is named by its class; a queue that is a map's key is
 * written topic/broker/number.
 */
final class Values {
    private static final Map<String, Class<?>> KINDS = new HashMap<>();

    static {
        KINDS.put("body", Message.class);
        KINDS.put("queueId", MessageQueue.class);
        KINDS.put("sql", MessageSelector.class);
        KINDS.put("accessKey", RPCHook.class);
        KINDS.put("select", MessageQueueSelector.class);
        KINDS.put("report", TopicMessageQueueChangeListener.class);
    }

    private Values() {}

    static boolean isCallback(Object value) {
        return value instanceof JSONObject && ((JSONObject) value).containsKey("callback");
    }

    /** Returns whether a parameter of this type can take this value. */
    static boolean fits(Object value, Class<?> type) {
        if (value == null || type == Object.class) {
            return !type.isPrimitive();
        }
        if (value instanceof Collection) {
            return Collection.class.isAssignableFrom(type);
        }
        if (isCallback(value)) {
            return type.isInterface() && type.getSimpleName().endsWith("Callback");
        }
        if (value instanceof JSONObject) {
            Class<?> kind = kind((JSONObject) value);
            return kind != null ? type == kind : Map.class == type || isBean(type);
        }
        return fitsPlain(value, type);
    }

    private static boolean fitsPlain(Object value, Class<?> type) {
        if (value instanceof String) {
            return type == String.class || type.isEnum() || type == AllocateMessageQueueStrategy.class;
        }
        if (value instanceof Boolean) {
            return type == boolean.class || type == Boolean.class;
        }
        return type == int.class || type == long.class || type == Long.class || type == Integer.class;
    }

    private static boolean isBean(Class<?> type) {
        return !type.isInterface() && !type.isPrimitive() && !type.isEnum() && type != String.class
                && !KINDS.containsValue(type);
    }

    private static Class<?> kind(JSONObject value) {
        for (Map.Entry<String, Class<?>> kind : KINDS.entrySet()) {
            if (value.containsKey(kind.getKey())) {
                return kind.getValue();
            }
        }
        return null;
    }

    /** Returns the value converted to this type; a converted callback completes the future when it is called. */
    static Object convert(Object value, Type type, CompletableFuture<Object> called) {
        if (isCallback(value)) {
            return callback((Class<?>) type, called);
        }
        if (value instanceof Collection) {
            return collection((Collection<?>) value, type);
        }
        if (value instanceof JSONObject) {
            return object((JSONObject) value, type);
        }
        if (type == AllocateMessageQueueStrategy.class) {
            return instance("org.apache.rocketmq.client.consumer.rebalance." + value);
        }
        return TypeUtils.cast(value, type, ParserConfig.getGlobalInstance());
    }

    private static Object instance(String name) {
        try {
            return Class.forName(name).getConstructor().newInstance();
        } catch (ReflectiveOperationException unknown) {
            throw new IllegalArgumentException(name, unknown);
        }
    }

    private static MessageQueueSelector selector(Object choice) {
        if (choice instanceof String) {
            return (MessageQueueSelector) instance("org.apache.rocketmq.client.producer.selector." + choice);
        }
        return (queues, message, index) -> queues.get(((Number) index).intValue());
    }

    private static TopicMessageQueueChangeListener reporter(String object) {
        return (topic, queues) -> {
            Map<String, Object> details = new HashMap<>();
            details.put("queues", plain(queues));
            Driver.emit(object, "queues changed", details);
        };
    }

    private static Object object(JSONObject value, Type type) {
        Class<?> kind = kind(value);
        if (kind == Message.class) {
            return message(value);
        } else if (kind == MessageQueue.class) {
            return queue(value);
        } else if (kind == MessageSelector.class) {
            return MessageSelector.bySql(value.getString("sql"));
        } else if (kind == RPCHook.class) {
            return hook(value);
        } else if (kind == MessageQueueSelector.class) {
            return selector(value.get("select"));
        } else if (kind == TopicMessageQueueChangeListener.class) {
            return reporter(value.getString("report"));
        } else if (type == Properties.class) {
            Properties properties = new Properties();
            properties.putAll(value);
            return properties;
        }
        return isQueueTable(type) ? queueTable(value) : TypeUtils.cast(value, type, ParserConfig.getGlobalInstance());
    }

    private static Message message(JSONObject value) {
        Message message = new Message(value.getString("topic"), value.getString("body").getBytes(StandardCharsets.UTF_8));
        message.setFlag(value.getIntValue("flag"));
        JSONObject properties = value.getJSONObject("properties");
        if (properties != null) {
            properties.forEach((name, text) -> MessageAccessor.putProperty(message, name, (String) text));
        }
        return message;
    }

    private static MessageQueue queue(JSONObject value) {
        return new MessageQueue(value.getString("topic"), value.getString("brokerName"), value.getIntValue("queueId"));
    }

    private static RPCHook hook(JSONObject value) {
        return new AclClientRPCHook(new SessionCredentials(value.getString("accessKey"), value.getString("secretKey")));
    }

    private static boolean isQueueTable(Type type) {
        return type instanceof ParameterizedType
                && ((ParameterizedType) type).getActualTypeArguments()[0] == MessageQueue.class;
    }

    private static Map<MessageQueue, Long> queueTable(JSONObject value) {
        Map<MessageQueue, Long> table = new HashMap<>();
        for (String key : value.keySet()) {
            String[] parts = key.split("/");
            table.put(new MessageQueue(parts[0], parts[1], Integer.parseInt(parts[2])), value.getLong(key));
        }
        return table;
    }

    private static Collection<Object> collection(Collection<?> values, Type type) {
        boolean isSet = Set.class.isAssignableFrom((Class<?>) ((ParameterizedType) type).getRawType());
        Type element = ((ParameterizedType) type).getActualTypeArguments()[0];
        Collection<Object> converted = isSet ? new HashSet<>() : new ArrayList<>();
        values.forEach(value -> converted.add(convert(value, element, null)));
        return converted;
    }

    /** Ignores the call with null that request callbacks get when the request is sent, a defect of both releases. */
    private static Object callback(Class<?> type, CompletableFuture<Object> called) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, args) -> {
            if (method.getName().equals("onSuccess") && args[0] != null) {
                called.complete(args[0]);
            } else if (method.getName().equals("onException")) {
                called.completeExceptionally((Throwable) args[0]);
            }
            return null;
        });
    }

    /** Returns any value converted to maps, lists, texts and numbers, for JSON. */
    static Object plain(Object value) {
        if (value == null || value instanceof String || value instanceof Number || value instanceof Boolean) {
            return value;
        } else if (value instanceof byte[]) {
            return new String((byte[]) value, StandardCharsets.UTF_8);
        } else if (value instanceof Map) {
            return plainMap((Map<?, ?>) value);
        } else if (value instanceof Collection) {
            return plainList((Collection<?>) value);
        } else if (value instanceof Enum || !value.getClass().getName().startsWith("org.apache.rocketmq.")) {
            return value instanceof Throwable ? plainProblem((Throwable) value) : value.toString();
        }
        return value instanceof Throwable ? plainProblem((Throwable) value) : plainBean(value);
    }

    private static Map<String, Object> plainMap(Map<?, ?> map) {
        Map<String, Object> plain = new TreeMap<>();
        map.forEach((key, value) -> plain.put(key instanceof MessageQueue ? name((MessageQueue) key) : "" + key, plain(value)));
        return plain;
    }

    private static List<Object> plainList(Collection<?> values) {
        List<Object> plain = new ArrayList<>();
        values.forEach(value -> plain.add(plain(value)));
        return plain;
    }

    private static String name(MessageQueue queue) {
        return queue.getTopic() + "/" + queue.getBrokerName() + "/" + queue.getQueueId();
    }

    private static Map<String, Object> plainProblem(Throwable problem) {
        Map<String, Object> plain = new TreeMap<>();
        plain.put("type", problem.getClass().getSimpleName());
        plain.put("message", problem.getMessage());
        plain.put("code", getter(problem, "getResponseCode"));
        return plain;
    }

    /** Returns a map from property names to the values that the bean's getters return. */
    static Map<String, Object> plainBean(Object bean) {
        Map<String, Object> plain = new TreeMap<>();
        for (Method method : bean.getClass().getMethods()) {
            String name = method.getName();
            boolean isGetter = name.matches("(get|is)[A-Z].*") && method.getParameterCount() == 0;
            if (isGetter && method.getDeclaringClass() != Object.class && !name.endsWith("Bytes")) {
                String key = name.substring(name.startsWith("is") ? 2 : 3);
                plain.put(Character.toLowerCase(key.charAt(0)) + key.substring(1), plain(getter(bean, name)));
            }
        }
        return plain;
    }

    private static Object getter(Object bean, String name) {
        try {
            return bean.getClass().getMethod(name).invoke(bean);
        } catch (ReflectiveOperationException absent) {
            return null;
        }
    }
}
