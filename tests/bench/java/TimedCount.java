import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;

/** Counts messages from several threads, and times them from the first one to the one that completes the number. */
final class TimedCount {
    private static final long LONGEST_SECONDS = 900;

    private final long wanted;
    private final AtomicLong seen = new AtomicLong();
    private final AtomicLong began = new AtomicLong();
    private final CountDownLatch done = new CountDownLatch(1);
    private volatile long ended;

    TimedCount(long wanted) {
        this.wanted = wanted;
    }

    /** Starts the clock now, before the first message. */
    void begin() {
        began.compareAndSet(0, System.nanoTime());
    }

    void add(long count) {
        begin();
        if (seen.addAndGet(count) >= wanted && done.getCount() > 0) {
            ended = System.nanoTime();
            done.countDown();
        }
    }

    boolean isDone() {
        return done.getCount() == 0;
    }

    void await() throws InterruptedException, TimeoutException {
        if (!done.await(LONGEST_SECONDS, TimeUnit.SECONDS)) {
            throw new TimeoutException(seen + " of " + wanted + " messages in " + LONGEST_SECONDS + " s");
        }
    }

    long messages() {
        return seen.get();
    }

    double seconds() {
        return (ended - began.get()) / 1e9;
    }
}
