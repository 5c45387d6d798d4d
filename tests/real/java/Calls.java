import com.alibaba.fastjson.JSONArray;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** Finds the constructor or method that takes given JSON values, and calls it. */
final class Calls {
    private static final int CALLBACK_SECONDS = 30;

    private Calls() {}

    /** Calls a public constructor. */
    static Object create(Class<?> type, JSONArray args) throws Throwable {
        for (Constructor<?> constructor : type.getConstructors()) {
            if (fits(constructor, args)) {
                return constructor.newInstance(convert(constructor, args, null).toArray());
            }
        }
        throw new NoSuchMethodException(type.getSimpleName() + args);
    }

    /** Calls a public method; if an argument is a callback, waits until it is called and returns what it got. */
    static Object call(Object target, String name, JSONArray args) throws Throwable {
        if (target == null) {
            throw new IllegalArgumentException("no such object");
        }
        int dot = name.indexOf('.');
        if (dot > 0) { // a path of getters before the name of the method
            return call(call(target, name.substring(0, dot), new JSONArray()), name.substring(dot + 1), args);
        }
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && !method.isBridge() && fits(method, args)) {
                return call(target, method, args);
            }
        }
        throw new NoSuchMethodException(target.getClass().getSimpleName() + "." + name + args);
    }

    private static Object call(Object target, Method method, JSONArray args) throws Throwable {
        CompletableFuture<Object> called = new CompletableFuture<>();
        Object result = method.invoke(target, convert(method, args, called).toArray());
        if (args.stream().noneMatch(Values::isCallback)) {
            return result;
        }
        try {
            return called.get(CALLBACK_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw failed.getCause();
        }
    }

    private static boolean fits(Executable callee, JSONArray args) {
        Class<?>[] types = callee.getParameterTypes();
        boolean fits = types.length == args.size();
        for (int i = 0; fits && i < types.length; i++) {
            fits = Values.fits(args.get(i), types[i]);
        }
        return fits;
    }

    private static List<Object> convert(Executable callee, JSONArray args, CompletableFuture<Object> called) {
        Type[] types = callee.getGenericParameterTypes();
        List<Object> converted = new ArrayList<>();
        for (int i = 0; i < types.length; i++) {
            converted.add(Values.convert(args.get(i), types[i], called));
        }
        return converted;
    }
}
